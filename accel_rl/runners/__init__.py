"""Runs: schedule, evaluation, checkpoints, and what goes on around them."""
