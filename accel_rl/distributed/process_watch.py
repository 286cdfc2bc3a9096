"""Watches the processes of other ranks on this machine."""

import os
import select


class Watch:
    """Reports which of the given processes, {rank: pid}, have ended.

    A pidfd works for processes that are not children, and is not confused by a new process with a reused pid.
    """

    def __init__(self, pids: dict[int, int]):
        self._poll, self._ranks, self._gone = select.poll(), {}, set[int]()
        for rank, pid in pids.items():
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                self._gone.add(rank)
            except OSError:  # forbidden in a sandbox: a lost rank is then noticed by timeout
                continue
            else:
                self._ranks[fd] = rank
                self._poll.register(fd, select.POLLIN)

    def gone(self) -> list[int]:
        """Return the ranks whose processes have ended."""
        for fd, _ in self._poll.poll(0) if self._ranks else ():
            self._poll.unregister(fd)
            self._gone.add(self._ranks.pop(fd))
            os.close(fd)
        return sorted(self._gone)
