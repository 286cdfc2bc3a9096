"""A sweep is a grid of runs on slots of cores and GPUs."""
