"""Rank processes: launchers, rank contexts, torchrun."""
