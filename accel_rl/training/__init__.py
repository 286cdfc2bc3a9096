"""Training: schedules of sampling and learning, evaluation, checkpoints and metrics."""
