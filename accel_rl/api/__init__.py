"""Runs from Python. The command line is a thin layer over this."""
