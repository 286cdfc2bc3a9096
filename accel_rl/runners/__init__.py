"""Runs: schedules, evaluation, checkpoints, reports."""
