"""Every system call of a small run fails once, or from the n-th call on, and then the run is resumed."""
