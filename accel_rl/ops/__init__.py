"""This package defines the algorithms' equations as pure functions. Its modules import torch, and no other part of
accel_rl."""
