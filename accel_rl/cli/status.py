"""accel-rl status FOLDER: `python -m launch.status`."""

from accel_rl.sweeps import sweep_display


def main(argv: list[str]) -> int:
    """accel-rl status FOLDER"""
    return sweep_display.status(argv)
