"""Experiments are functions that return configurations."""
