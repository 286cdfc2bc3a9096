"""Tables and plots of many runs, beside published results."""
