"""Algorithms: each reads like its paper, and is a short delta to its parent."""
