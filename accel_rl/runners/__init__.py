"""This package trains: it alternates sampling and learning, evaluates agents, saves checkpoints and reports metrics."""
