"""This package contains the machine (cores, GPUs), child processes, errors, counts and timeouts."""
