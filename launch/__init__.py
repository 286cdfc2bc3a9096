"""Grids of runs over slots of cores and GPUs."""
