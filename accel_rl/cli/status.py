"""accel-rl status FOLDER: `python -m launch.status`."""

import importlib


def main(argv: list[str]) -> int:
    """accel-rl status FOLDER"""
    return int(importlib.import_module("launch.status").main(argv))
