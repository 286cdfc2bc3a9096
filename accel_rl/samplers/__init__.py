"""Collecting rollouts. Worker processes import this package: nothing here imports torch at the top."""
