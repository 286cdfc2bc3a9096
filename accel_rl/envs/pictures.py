"""Find out which Gymnasium observations are pictures, and which axis has the channels."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from accel_rl.text.errors import ConfigError

LARGE = 32  # A matrix of at least 32 x 32 numbers is treated as a picture.


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """The layout of a picture. `channel_axis` is 0 or 2, or None if the picture has no axis of channels.

    A frame has the picture's numbers as uint8 or float32. Bools become bytes 0 or 255, because networks divide bytes by
    255."""

    shape: tuple[int, ...]
    channel_axis: int | None
    dtype: str = "uint8"  # dtype of a frame: "uint8" or "float32"

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """[H, W], or [C, H, W] if the picture has several channels."""
        if self.channel_axis is None:
            return self.shape
        channels = self.shape[self.channel_axis]
        size = tuple(n for axis, n in enumerate(self.shape) if axis != self.channel_axis)
        return size if channels == 1 else (channels, *size)

    def frame(self, observation: Any) -> np.ndarray:
        """Return the observation as a frame [*frame_shape], without a copy if possible."""
        picture = np.asarray(observation).reshape(self.shape)
        if picture.dtype == np.bool_:
            picture = picture.astype(np.uint8) * np.uint8(255)
        if self.channel_axis is not None:
            picture = np.moveaxis(picture, self.channel_axis, 0)
        return picture.reshape(self.frame_shape)


def picture_layout(space: gymnasium.Space[Any]) -> PictureLayout | None:
    """Return the layout of a space of pictures [H, W], [H, W, C] or [C, H, W] of bytes, bools or floats, or None for
    other spaces. The shorter of the first and the last axis is the axis of channels. A small matrix [H, W] of floats is
    not a picture."""
    if not isinstance(space, gymnasium.spaces.Box) or _picture_in(space) is None or len(space.shape) > 3:
        return None
    is_float = space.dtype.kind == "f"
    if not (is_float or space.dtype in (np.uint8, np.bool_)):
        return None
    channel_axis = None if len(space.shape) == 2 else 0 if space.shape[0] < space.shape[2] else 2
    return PictureLayout(space.shape, channel_axis, "float32" if is_float else "uint8")


@dataclass(frozen=True, slots=True)
class MixedLayout:
    """The layout of a Dict with one picture, at `key`. The other entries are flattened to a vector. A frame consists of
    the bytes of the picture and of the vector."""

    key: str
    picture: PictureLayout
    others: gymnasium.spaces.Dict
    dtype: str = "uint8"

    @property
    def frame_shape(self) -> tuple[int, ...]:
        picture = math.prod(self.picture.frame_shape) * np.dtype(self.picture.dtype).itemsize
        return (picture + 4 * gymnasium.spaces.flatdim(self.others),)

    def frame(self, observation: Any) -> np.ndarray:
        """Return a frame [n] uint8."""
        picture = np.ascontiguousarray(self.picture.frame(observation[self.key]), self.picture.dtype)
        others = gymnasium.spaces.flatten(self.others, {name: observation[name] for name in self.others})
        return np.concatenate([x.reshape(-1).view(np.uint8) for x in (picture, np.asarray(others, np.float32))])


def mixed_layout(space: gymnasium.Space[Any]) -> MixedLayout | None:
    """Return the layout of a Dict with exactly one picture and other entries that can be flattened, or None for other
    spaces."""
    if not isinstance(space, gymnasium.spaces.Dict):
        return None
    pictures = {name: picture_layout(part) for name, part in space.items() if _picture_in(part) is not None}
    # Gymnasium sorts the entries of a dict, but not those of an OrderedDict.
    others = gymnasium.spaces.Dict(OrderedDict((name, part) for name, part in space.items() if name not in pictures))
    (key, picture), *more = [*pictures.items(), ("", None)]
    fits = picture and len(more) == 1 and len(others) and others.is_np_flattenable
    return MixedLayout(key, picture, others) if fits and picture else None


def check_flat(name: str, space: gymnasium.Space[Any]) -> None:
    """Raise ConfigError if the space contains a picture, because it would be flattened to a vector."""
    if (picture := _picture_in(space)) is None:
        return
    inside = "" if picture is space else f" in a {type(space).__name__}"
    raise ConfigError(
        f"{name} observes pictures{inside}, {picture.dtype} of shape {picture.shape}: must be uint8, bool or floats "
        "[H, W], [H, W, C] or [C, H, W], and the whole observation or the one picture of a Dict; choose and convert it "
        "by wrappers of Gymnasium (FilterObservation, TransformObservation), or make it a vector yourself "
        "(FlattenObservation)"
    )


def _picture_in(space: gymnasium.Space[Any]) -> gymnasium.spaces.Box | None:
    """Return the space, or its first subspace, with the shape and dtype of a picture, or None."""
    if isinstance(space, gymnasium.spaces.Box):
        tall = len(space.shape) == 2 and min(space.shape) >= LARGE
        small = len(space.shape) == 2 and space.dtype in (np.uint8, np.bool_)
        return space if len(space.shape) >= 3 or tall or small else None
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        if (picture := _picture_in(part)) is not None:
            return picture
    return None
