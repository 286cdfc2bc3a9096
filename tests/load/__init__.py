"""A load test: in long and large runs, memory, file descriptors and threads must not grow."""
