"""The algorithms' equations as pure functions. The modules import torch, and no other part of accel_rl."""
