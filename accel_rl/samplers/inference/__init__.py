"""The action server, and ways to infer: called, captured, as a CUDA graph, in threads."""
