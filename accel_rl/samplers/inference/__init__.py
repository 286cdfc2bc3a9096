"""The action server infers actions by calling the agent, by replaying captured calls or CUDA graphs, or in threads."""
