"""The data that samplers, algorithms and replays exchange is time-major: T steps, B environments, S stacked frames."""
