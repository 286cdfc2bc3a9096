"""Copies that bypass the cache."""

from collections.abc import Callable

from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.elementwise import alike


def stream(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[slice], None]:
    """For any part of the pairs (out [n], source [n]), out[part].copy_(source[part]): past the cache where they are
    whole pieces of the host's memory, for what others will read."""
    module = native.compiled() if all(alike(*pair) for pair in pairs) else None
    if module is None:

        def copy(part: slice) -> None:
            for out, source in pairs:
                out[part].copy_(source[part])

        return copy
    # addresses, once: to slice tensors takes longer than a part does
    routes = [(out.data_ptr(), source.data_ptr(), out.itemsize) for out, source in pairs]

    def stream_part(part: slice) -> None:
        for to, source, size in routes:
            module.stream(to + size * part.start, source + size * part.start, size * (part.stop - part.start))

    return stream_part
