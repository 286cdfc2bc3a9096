"""Errors, output, counts, and what a user writes: names of modules and calls."""
