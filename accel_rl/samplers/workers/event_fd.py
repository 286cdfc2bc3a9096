"""An event wakes a sleeping process or thread."""

import os
from contextlib import suppress


class EventFd:
    """A flag that a sleeping process polls: an eventfd, or a pipe on systems without eventfd."""

    def __init__(self, fds: tuple[int, int] | None = None):
        """`fds` are the descriptors (to read, to write) of an event that another process created."""
        if fds is None:
            if hasattr(os, "eventfd"):
                fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                fds = (fd, fd)
            else:
                fds = os.pipe()
                os.set_blocking(fds[0], False)
                os.set_blocking(fds[1], False)
        self.read_fd, self.write_fd = fds

    @property
    def fds(self) -> tuple[int, int]:
        return self.read_fd, self.write_fd

    def set(self) -> None:
        with suppress(BlockingIOError):  # A full buffer means that the event is set already.
            os.write(self.write_fd, b"\x01\0\0\0\0\0\0\0")

    def clear(self) -> None:
        with suppress(BlockingIOError):  # The event was not set.
            os.read(self.read_fd, 4096)

    def close(self) -> None:
        for fd in set(self.fds):
            os.close(fd)
