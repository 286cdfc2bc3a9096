"""Algorithms. Each follows its paper and overrides only what differs from its parent class."""
