"""Runs the real code of several processes under one seeded scheduler, in one process and virtual time."""
