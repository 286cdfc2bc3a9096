"""Long and large runs, whose use of memory, descriptors and threads must not grow."""
