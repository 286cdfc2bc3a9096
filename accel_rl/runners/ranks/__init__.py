"""Processes of ranks: launchers, their contexts, torchrun."""
