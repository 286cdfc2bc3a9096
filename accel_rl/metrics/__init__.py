"""Rows of metrics are collected from updates and episodes, and written to sinks."""
