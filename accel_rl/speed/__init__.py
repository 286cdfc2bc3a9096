"""Acting and updates that are recorded once and replayed without Python, with the results of the plain run."""
