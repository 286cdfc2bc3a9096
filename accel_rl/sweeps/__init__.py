"""Sweeps: grids of runs on slots of cores and GPUs."""
