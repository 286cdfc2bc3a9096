"""An experiment is a function that returns the configuration of a run."""
