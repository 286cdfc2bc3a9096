"""Training: sampling and learning in turns, evaluation, checkpoints and metrics."""
