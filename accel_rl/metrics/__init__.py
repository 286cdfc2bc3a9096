"""Rows of metrics from updates and episodes, written to sinks."""
