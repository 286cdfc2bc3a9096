"""The data that crosses between parts, time-major: T steps, B environments, S stacked frames."""
