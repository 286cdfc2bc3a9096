"""Each learning algorithm follows its paper, and overrides only the methods that differ from its parent class."""
