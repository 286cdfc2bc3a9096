"""Equations as pure functions. These modules import torch and nothing else of this package."""
