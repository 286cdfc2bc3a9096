"""Reports read results of runs: the runs, their settings, and tables."""
