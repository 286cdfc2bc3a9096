"""A sweep runs a grid of two sizes and two seeds.

| command | effect |
|---|---|
| `accel-rl sweep examples.sweep:sizes --dry-run` | prints the plan |
| `accel-rl sweep examples.sweep:sizes --out runs/sizes` | runs the sweep |
| `accel-rl report runs/sizes --out report` | writes a report |
"""

from accel_rl.settings.train import default_config
from accel_rl.sweeps.grid import Grid, grid


def sizes() -> Grid:
    return grid(default_config("ppo"), {"game": ("pong",)}, {"envs": (8, 64), "horizon": (256, 32)}, seeds=(0, 1))
