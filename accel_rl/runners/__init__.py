"""A run combines schedules of sampling and learning, evaluation, checkpoints and reports."""
