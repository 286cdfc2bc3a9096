"""Trains, resumes and evaluates runs from Python; the basis of the command line."""
