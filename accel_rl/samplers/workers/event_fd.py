"""What wakes a sleeping process or thread."""

import os
from contextlib import suppress


class EventFd:
    """Wakes one sleeper. An eventfd where there is one, else a pipe."""

    def __init__(self, fds: tuple[int, int] | None = None):
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

    def ring(self) -> None:
        with suppress(BlockingIOError):  # full: it is ringing already
            os.write(self.write_fd, b"\x01\0\0\0\0\0\0\0")

    def drain(self) -> None:
        with suppress(BlockingIOError):  # somebody else's wake-up was drained already
            os.read(self.read_fd, 4096)

    def close(self) -> None:
        for fd in set(self.fds):
            os.close(fd)
