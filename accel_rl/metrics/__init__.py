"""Collects rows of metrics from updates and episodes, and writes them to sinks."""
