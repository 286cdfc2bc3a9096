"""Qualifies a GPU: one command that runs its tests and measures acting, training and replays on it."""
