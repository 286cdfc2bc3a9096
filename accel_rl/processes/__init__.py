"""Starts child processes, waits for them, and kills processes that they leave behind."""
