"""Checkpoints, written atomically and verified when read."""
