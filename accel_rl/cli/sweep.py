"""accel-rl sweep EXPERIMENT [options]: `python -m launch.sweep`."""

import importlib


def main(argv: list[str]) -> int:
    """accel-rl sweep EXPERIMENT [options]"""
    return int(importlib.import_module("launch.sweep").main(argv))
