"""accel-rl search SPACE [options]: `python -m launch.search`."""

from accel_rl.sweeps import search


def main(argv: list[str]) -> int:
    """accel-rl search SPACE [options]"""
    return search.search(argv)
