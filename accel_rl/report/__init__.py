"""Tables and plots that compare many runs with each other and with published results."""
