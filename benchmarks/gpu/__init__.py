"""Runs all tests that need a GPU, and measures acting, training and replays on the GPU."""
