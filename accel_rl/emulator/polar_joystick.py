"""Continuous actions (r, theta, fire), as those of ale-py (Farebrother & Castro 2024, CALE), move a joystick to
r (cos theta, sin theta), and turn a paddle by r."""

import math

import numpy as np
from gymnasium.spaces import Box

from accel_rl.emulator.games import ACTION_MEANINGS

SPACE = Box(np.array([0, -math.pi, 0], np.float32), np.array([1, math.pi, 1], np.float32))
PADDLE_TURN, MOST_TURN = 23_000, 700_000  # Ohms per frame at r = 1, and beyond (core/environment.h)


def _codes() -> np.ndarray:
    """Joystick actions [3, 3, 2] by right - left, up - down, and fire."""
    codes = np.empty((3, 3, 2), np.int64)
    for code, name in enumerate(ACTION_MEANINGS):
        codes[("RIGHT" in name) - ("LEFT" in name), ("UP" in name) - ("DOWN" in name), int("FIRE" in name)] = code
    return codes


CODES = _codes()


def moved(actions: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Joystick actions [n], and ohms by which a paddle turns per frame [n], of actions [n, 3] float32. A joystick
    moves, and the button is pressed, beyond `threshold`."""
    r, theta, fire = actions.T
    x, y = ((u > threshold).astype(int) - (u < -threshold) for u in (r * np.cos(theta), r * np.sin(theta)))
    turns = np.fmin(PADDLE_TURN * abs(r), MOST_TURN).astype(np.int32)
    return CODES[x, y, (fire > threshold).astype(int)], turns
