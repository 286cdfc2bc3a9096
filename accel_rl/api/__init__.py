"""Training, resuming and evaluating runs from Python. The command line is a thin layer over this package."""
