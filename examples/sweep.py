"""A grid of runs: two sizes, two seeds.

accel-rl sweep examples.sweep:sizes --dry-run               # what would run where
accel-rl sweep examples.sweep:sizes --out runs/sizes
accel-rl report runs/sizes --out report
"""

from accel_rl.config.train import default_config
from accel_rl.sweeps.grid import Grid, grid


def sizes() -> Grid:
    return grid(default_config("ppo"), {"game": ("pong",)}, {"envs": (8, 64), "horizon": (256, 32)}, seeds=(0, 1))
