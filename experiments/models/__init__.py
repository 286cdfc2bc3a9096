"""Trained agents of the suite, a folder each, and the program that adds one."""
