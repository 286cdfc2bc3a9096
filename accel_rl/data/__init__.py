"""The data that samplers, algorithms and replays exchange, time-major: T steps, B environments, S stacked frames."""
