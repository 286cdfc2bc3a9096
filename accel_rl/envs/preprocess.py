"""Compute an observation from the screens of the last two frames of an agent step.

Preprocessing converts palette indices to luminance, because ale-py returns palette indices 16 times faster than gray
screens.
"""

import sys
from functools import cache
from typing import Any, Protocol

import numpy as np

from accel_rl.envs.colors import luminance
from accel_rl.envs.protocols import FRAMES
from accel_rl.text.errors import ConfigError


@cache
def opencv() -> Any:
    """Import OpenCV, and limit it to one thread, because each environment has only one core. Raises ConfigError."""
    try:
        import cv2
    except ImportError as e:
        raise ConfigError(
            f"ale-py's screens are resized by OpenCV ({e}): pip install 'accel_rl[ale]', or use --env.frame 104x80"
        ) from e
    cv2.setNumThreads(1)
    return cv2


class Preprocessor(Protocol):
    """Computes a frame from the palette indices `screens` [2, rows, 160] uint8 of two emulated frames."""

    screens: np.ndarray

    def last(self, frame: np.ndarray) -> None:
        """Write the last screen into `frame` [H, W] uint8, without a maximum over both screens."""

    def both(self, frame: np.ndarray) -> None:
        """Write the pixelwise maximum of the two screens into `frame` [H, W] uint8."""


def make_preprocessor(kind: str, rows: int, columns: int = 160) -> Preprocessor:
    """`kind` is one of `protocols.FRAMES`. Raises ConfigError if OpenCV, which all kinds except 104x80 need, is
    missing."""
    if kind == "104x80":
        return Subsample(rows, columns)
    # 104x80-mean crops the first and the last of 210 rows, and takes the means of 2x2 pixels (rounded up).
    crop = slice(1, rows - 1) if kind == "104x80-mean" else slice(0, rows)
    return Area(rows, columns, crop, FRAMES[kind])


class Subsample:
    """Frames of 104x80 from rows 1, 3 .. 207 of 210 and every second column (Stooke & Abbeel 2018, section 5.1). If a
    screen does not have 210 rows, 104 evenly spaced rows are used."""

    def __init__(self, rows: int, columns: int) -> None:
        self.screens = np.zeros((2, rows, columns), np.uint8)
        self._table = luminance(rows)
        self._small = np.zeros((2, 104, 80), np.uint8)
        # Two neighbouring pixels are read as one little-endian number, whose low byte is the left pixel.
        # Casting the numbers of all pairs to uint8 selects every second column, twice as fast as a strided copy.
        assert sys.byteorder == "little" and columns == 160
        pairs = self.screens.view(np.uint16)
        self._rows = None if rows == 210 else 1 + np.arange(104) * (rows - 2) // 104
        self._kept = [pairs[i, 1:209:2] if rows == 210 else pairs[i] for i in (0, 1)]

    def _keep(self, i: int) -> None:
        kept = self._kept[i] if self._rows is None else self._kept[i][self._rows]
        np.copyto(self._small[i], kept, casting="unsafe")

    def last(self, frame: np.ndarray) -> None:
        self._keep(1)
        np.take(self._table, self._small[1], out=frame, mode="clip")

    def both(self, frame: np.ndarray) -> None:
        small = self._small
        self._keep(0)
        self._keep(1)
        gray = self._table[small]
        np.maximum(gray[0], gray[1], out=frame)


class Area:
    """The maximum of two screens at full size, resized by OpenCV's INTER_AREA, as in ale-py's vector environment."""

    def __init__(self, rows: int, columns: int, crop: slice, shape: tuple[int, int]) -> None:
        self.screens = np.zeros((2, rows, columns), np.uint8)
        self._table = luminance(rows)
        self._gray = np.zeros((2, rows, columns), np.uint8)
        self._full = np.zeros((rows, columns), np.uint8)
        self._cropped = self._full[crop]
        self._size = shape[::-1]
        self._scratch = np.zeros(shape, np.uint8)
        self._cv2 = opencv()

    def _resize(self, frame: np.ndarray) -> None:
        if frame.flags.c_contiguous:
            self._cv2.resize(self._cropped, self._size, frame, interpolation=self._cv2.INTER_AREA)
        else:  # OpenCV cannot write into a non-contiguous array, so the result is copied.
            area = self._cv2.INTER_AREA
            np.copyto(frame, self._cv2.resize(self._cropped, self._size, self._scratch, interpolation=area))

    def last(self, frame: np.ndarray) -> None:
        np.take(self._table, self.screens[1], out=self._full, mode="clip")
        self._resize(frame)

    def both(self, frame: np.ndarray) -> None:
        gray = self._gray
        np.take(self._table, self.screens, out=gray, mode="clip")
        np.maximum(gray[0], gray[1], out=self._full)
        self._resize(frame)
