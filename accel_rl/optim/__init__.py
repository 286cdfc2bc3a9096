"""Optimizers on flat parameters."""
