"""An agent combines a network with a distribution from which actions are drawn."""
