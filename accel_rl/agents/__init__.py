"""Agents combine a network with a distribution of actions."""
