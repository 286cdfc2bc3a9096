"""This package collects rows of metrics from updates and episodes, and writes the rows to sinks."""
