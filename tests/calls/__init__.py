"""Let each system call of a small run fail, and then resume the run."""
