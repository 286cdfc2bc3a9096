"""Experiments as functions that return configurations."""
