"""A sweep runs a grid of training runs on a machine that is divided into slots, each with some of the cores and
GPUs."""
