"""Results of runs as reports read them: runs, their settings, and tables."""
