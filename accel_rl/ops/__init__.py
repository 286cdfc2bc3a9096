"""Equations are pure functions. The modules of accel_rl/ops import torch, and no other part of accel_rl."""
