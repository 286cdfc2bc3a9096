"""Agents: a network with a distribution of actions."""
