"""Samplers collect rollouts. Worker processes import this package, so its modules do not import torch at the top."""
