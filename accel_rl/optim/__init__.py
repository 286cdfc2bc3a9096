"""Optimizers update all parameters of a model in one flat vector."""
