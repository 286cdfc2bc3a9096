"""accel-rl sweep EXPERIMENT [options]: `python -m launch.sweep`."""

from accel_rl.sweeps import sweep


def main(argv: list[str]) -> int:
    """accel-rl sweep EXPERIMENT [options]"""
    return sweep.sweep(argv)
