"""A sweep runs a grid of training runs on slots, each of which has some of the machine's cores and GPUs."""
