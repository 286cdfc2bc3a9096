"""Qualifies a GPU: one command runs the GPU's tests and measures acting, training and replays on the GPU."""
