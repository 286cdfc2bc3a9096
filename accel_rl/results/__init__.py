"""Settings and metrics of runs for reports, and tables."""
