"""Acting and updates are recorded once and replayed without Python, with the results of the plain run."""
