"""An agent is a network and the distribution of actions that it stands for."""
