"""Pictures in the memory order that convolutions read."""

from torch import Tensor


def in_planes(pictures: Tensor) -> Tensor:
    """pictures [N, S, H, W] with each picture contiguous; the pictures may lie apart, as windows of a replay do."""
    return pictures if _has_planes(pictures) else pictures.contiguous()


def _has_planes(pictures: Tensor) -> bool:
    _, _, height, width = pictures.shape
    return pictures.stride()[1:] == (height * width, width, 1)
