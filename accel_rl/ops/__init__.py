"""Equations are pure functions. The modules of this folder import torch and no other part of this package."""
