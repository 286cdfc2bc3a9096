"""Runs the real code of several processes in one process and virtual time, in orders that a seed determines."""
