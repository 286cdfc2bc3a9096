"""accel-rl search SPACE [options]: `python -m launch.search`."""

from launch import search


def main(argv: list[str]) -> int:
    """accel-rl search SPACE [options]"""
    return search.search(argv)
