"""The kernel calls of acting and updates are recorded once and replayed without Python, with identical results."""
