"""The action server computes actions by calling the agent, or by replaying captured kernel calls or CUDA graphs."""
