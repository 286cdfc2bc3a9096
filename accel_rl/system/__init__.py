"""The machine and the process: cores, GPUs, errors, counts, timeouts."""
