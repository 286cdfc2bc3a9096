"""Preprocessing computes an observation, in place, from the screens of an agent step's last two frames.

This module looks up the luminance itself, because ale-py returns a screen as palette indices 16 times faster than as
grayscale. Subsampling looks up the luminance only of the pixels that are used.
"""

import sys
from typing import Protocol

import cv2
import numpy as np

from accel_rl.envs.colors import luminance
from accel_rl.envs.protocols import FRAMES


class Preprocessor(Protocol):
    """Computes frames. `screens` [2, rows, 160] uint8 contains the palette indices of the last two emulated frames."""

    screens: np.ndarray

    def last(self, frame: np.ndarray) -> None:
        """Write the last screen into `frame` [H, W] uint8, without a maximum over the previous screen."""

    def both(self, frame: np.ndarray) -> None:
        """Write the observation of the pixelwise maximum of both screens' luminance into `frame`."""


def make_preprocessor(kind: str, rows: int, columns: int = 160) -> Preprocessor:
    """Create the preprocessor for frames of `kind` (`protocols.FRAMES`) and screens of the given size. Sets OpenCV to
    one thread in this process."""
    cv2.setNumThreads(1)  # An environment uses one core.
    if kind == "104x80":
        return Subsample(rows, columns)
    # One row is cropped at the top and at the bottom of a screen of 210 rows.
    # The screen is then halved by the mean of 2x2 pixels, where a half is rounded up.
    crop = slice(1, rows - 1) if kind == "104x80-mean" else slice(0, rows)
    return Area(rows, columns, crop, FRAMES[kind])


class Subsample:
    """Computes frames of 104x80 from rows 1, 3 .. 207 of 210 and every second column (Stooke & Abbeel 2018, section
    5.1). A screen with another number of rows contributes 104 rows, evenly spaced between its first and last row."""

    def __init__(self, rows: int, columns: int) -> None:
        self.screens = np.zeros((2, rows, columns), np.uint8)
        self._table = luminance(rows)
        self._small = np.zeros((2, 104, 80), np.uint8)
        # Two neighbouring pixels are read as one little-endian number.
        # A cast to uint8 selects the number's low byte, which is the left pixel.
        # The cast to uint8 is twice as fast as a strided copy.
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
        cv2.LUT(small, self._table, small)
        np.maximum(small[0], small[1], out=frame)


class Area:
    """Computes the maximum of the luminance at full size, resized by OpenCV's INTER_AREA, as in ale-py's vector
    environment."""

    def __init__(self, rows: int, columns: int, crop: slice, shape: tuple[int, int]) -> None:
        self.screens = np.zeros((2, rows, columns), np.uint8)
        self._table = luminance(rows)
        self._gray = np.zeros((2, rows, columns), np.uint8)
        self._full = np.zeros((rows, columns), np.uint8)
        self._cropped = self._full[crop]
        self._size = shape[::-1]
        self._scratch = np.zeros(shape, np.uint8)

    def _resize(self, frame: np.ndarray) -> None:
        if frame.flags.c_contiguous:
            cv2.resize(self._cropped, self._size, frame, interpolation=cv2.INTER_AREA)
        else:  # OpenCV would write a non-contiguous destination to a new array.
            np.copyto(frame, cv2.resize(self._cropped, self._size, self._scratch, interpolation=cv2.INTER_AREA))

    def last(self, frame: np.ndarray) -> None:
        np.take(self._table, self.screens[1], out=self._full, mode="clip")
        self._resize(frame)

    def both(self, frame: np.ndarray) -> None:
        gray = self._gray
        cv2.LUT(self.screens, self._table, gray)
        np.maximum(gray[0], gray[1], out=self._full)
        self._resize(frame)
