"""Each learning algorithm implements its paper, as a class that overrides only the methods in which it differs from its
parent class."""
