"""Continuous actions (r, theta, fire) as in ale-py (Farebrother & Castro 2024, CALE). An action moves a joystick to r
(cos theta, sin theta), and turns a paddle at the speed r."""

import math

import numpy as np
from gymnasium.spaces import Box

from accel_rl.emulator.games import ACTION_MEANINGS

SPACE = Box(np.array([0, -math.pi, 0], np.float32), np.array([1, math.pi, 1], np.float32))
# PADDLE_TURN: ohms by which a paddle's resistance changes per frame for r = 1. MOST_TURN: the largest such change.
PADDLE_TURN, MOST_TURN = 23_000, 700_000


def _codes() -> np.ndarray:
    """Return the joystick actions [3, 3, 2], indexed by right - left, up - down (each -1, 0 or 1), and fire."""
    codes = np.empty((3, 3, 2), np.int64)
    for code, name in enumerate(ACTION_MEANINGS):
        codes[("RIGHT" in name) - ("LEFT" in name), ("UP" in name) - ("DOWN" in name), int("FIRE" in name)] = code
    return codes


CODES = _codes()


def moved(actions: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Convert continuous actions [n, 3] float32 to joystick actions [n], and to changes of a paddle's resistance [n] in
    ohms per frame. The joystick moves along an axis if |r cos theta| or |r sin theta| exceeds `threshold`, and the
    button is pressed if `fire` exceeds `threshold`."""
    r, theta, fire = actions.T
    x, y = ((u > threshold).astype(int) - (u < -threshold) for u in (r * np.cos(theta), r * np.sin(theta)))
    turns = np.fmin(PADDLE_TURN * abs(r), MOST_TURN).astype(np.int32)
    return CODES[x, y, (fire > threshold).astype(int)], turns
