"""Worker processes step the environments of a sampler. Worker processes import neither torch nor the main program."""
