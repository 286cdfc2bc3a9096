"""Long and large runs, which must not grow."""
