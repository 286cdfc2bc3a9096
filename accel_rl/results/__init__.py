"""This package reads the settings and metrics of runs for reports, and formats tables."""
