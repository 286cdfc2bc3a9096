"""This package writes reports: tables and plots that compare many runs with each other and with published results."""
