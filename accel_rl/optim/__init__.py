"""Optimizers work on flat parameters."""
