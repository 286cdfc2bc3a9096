"""Arrays are page-aligned, and private to one process or shared by several processes through an anonymous file.

A memfd has no name in /dev/shm, so no file remains after a crash, and the size of /dev/shm does not limit the arrays.
The system allocates a page when the page is first written, so an unused array occupies only address space.
"""

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from accel_rl.machine.hardware import free_memory
from accel_rl.text.errors import ConfigError, RunError, reported

_ALIGN = 4096

Layout = dict[str, tuple[str, tuple[int, ...]]]  # A Layout maps the name of each array to its (dtype, shape).


def _offsets(layout: Layout) -> tuple[dict[str, int], int]:
    offsets, end = {}, 0
    for name, (dtype, shape) in layout.items():
        offsets[name] = end
        size = np.dtype(dtype).itemsize * math.prod(shape)
        end += -(-size // _ALIGN) * _ALIGN
    return offsets, max(end, _ALIGN)


def _anonymous_file(size: int) -> int:
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("accel_rl", os.MFD_CLOEXEC)
        else:  # macOS has no memfd, so an unlinked temporary file is used.
            fd, path = tempfile.mkstemp(prefix="accel_rl")
            os.unlink(path)
        try:
            os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            raise
    except OSError as e:  # The limit of `ulimit -f` also applies to anonymous files.
        raise ConfigError(
            f"{size / 2**20:.1f} MiB of shared memory cannot be allocated: {reported(e) or e.strerror}"
        ) from e
    return fd


def _boot() -> str:
    """Identifies this machine's current boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return "unknown"


def address(fd: int) -> str:
    """The path by which other local processes can open this process's anonymous file."""
    return f"/proc/{os.getpid()}/fd/{fd} {os.fstat(fd).st_ino} {_boot()}"


def open_at(address: str) -> int:
    """Raises RunError on another machine, or if the owner has exited."""
    path, inode, boot = address.split()
    if boot != _boot():
        raise RunError(f"the shared memory {path} is another machine's")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as e:
        raise RunError(f"the shared memory {path} cannot be opened: {e.strerror}; is it another container's?") from e
    if os.fstat(fd).st_ino != int(inode):
        os.close(fd)
        raise RunError(f"{path} is another file than the one that was offered; is that another container's?")
    return fd


def private_arrays(layout: Layout) -> dict[str, np.ndarray]:
    """Arrays of zeros in this process's memory. Each array begins on a new page, so that its pages can be locked for a
    GPU."""
    offsets, size = _offsets(layout)
    return _arrays(layout, offsets, mmap.mmap(-1, size))


def _arrays(layout: Layout, offsets: dict[str, int], memory: mmap.mmap) -> dict[str, np.ndarray]:
    return {
        name: np.frombuffer(memory, dtype, math.prod(shape), offsets[name]).reshape(shape)
        for name, (dtype, shape) in layout.items()
    }


class SharedArrays:
    """Named numpy arrays over one shared file. The owner of the file calls `create`, and other processes call `attach`
    with the same layout."""

    def __init__(self, layout: Layout, fd: int):
        offsets, size = _offsets(layout)
        self.layout = layout
        self.fd = fd
        self.nbytes = size
        self._map = mmap.mmap(fd, size)
        self.arrays = _arrays(layout, offsets, self._map)

    @classmethod
    def create(cls, layout: Layout) -> "SharedArrays":
        _, size = _offsets(layout)
        available = free_memory()
        if size > available:
            raise ConfigError(
                f"the shared buffers need {size / 2**30:.1f} GiB but {available / 2**30:.1f} GiB of memory are free; "
                "use fewer environments or a shorter horizon"
            )
        return cls(layout, _anonymous_file(size))

    @classmethod
    def over(cls, layout: Layout, fd: int) -> "SharedArrays":
        """Arrays over an empty file that is already open."""
        os.ftruncate(fd, _offsets(layout)[1])
        return cls(layout, fd)

    @classmethod
    def attach(cls, layout: dict[str, Any], fd: int) -> "SharedArrays":
        return cls({k: (d, tuple(s)) for k, (d, s) in layout.items()}, fd)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def close(self) -> None:
        """The memory is freed when no view of the arrays exists anymore."""
        self.arrays = {}
        os.close(self.fd)
