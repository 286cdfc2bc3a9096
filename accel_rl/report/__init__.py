"""Reports contain tables and plots of many runs, compared with published results."""
