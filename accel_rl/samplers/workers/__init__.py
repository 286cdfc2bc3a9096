"""Worker processes that step environments. They import neither torch nor the main program."""
