"""Worker processes that step environments. Worker processes import neither torch nor the main program."""
