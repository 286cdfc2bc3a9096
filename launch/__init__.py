"""Programs for a checkout: `python -m launch.sweep`, the same as `accel-rl sweep`, and its companions."""
