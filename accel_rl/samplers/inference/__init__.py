"""The action server, and the ways to infer: called, captured, as a CUDA graph, in threads."""
