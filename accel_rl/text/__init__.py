"""Errors, output, counts, and parsing of the names of users' modules and calls."""
