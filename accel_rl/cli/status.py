"""accel-rl status FOLDER: `python -m launch.status`."""

from accel_rl.sweeps import status


def main(argv: list[str]) -> int:
    """accel-rl status FOLDER"""
    return status.status(argv)
