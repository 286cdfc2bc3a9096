"""This package trains, resumes and evaluates runs from Python, and is the basis of the command line."""
