"""Checkpoints are written atomically, verified when read, and contain no pickle."""
