"""Computing actions: calling the agent, or replaying captured kernel calls or CUDA graphs."""
