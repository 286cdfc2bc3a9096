"""Which of the other ranks' processes on this machine have ended."""

import os
import select


class Watch:
    """Of processes by rank. Asked by pidfd: it answers as soon as one has ended, whoever its parent is, and a new
    process with an old one's number does not deceive it."""

    def __init__(self, pids: dict[int, int]):
        self._poll, self._ranks, self._gone = select.poll(), {}, set[int]()
        for rank, pid in pids.items():
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                self._gone.add(rank)
            except OSError:  # a sandbox forbids it: waits then end by their timeouts
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
