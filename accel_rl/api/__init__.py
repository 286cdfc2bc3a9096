"""Trains, resumes and evaluates runs from Python. The command line is a thin layer over accel_rl.api."""
