"""Equations as pure functions. They import torch, and nothing of this package."""
