"""A rank of a synchronous run whose process a Ray actor starts: the actor, and the driver's handle of it."""

import contextlib
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from accel_rl.runners.ranks.rank_process import Rank, launch

POLL_S = 0.1  # between two looks at a rank
SETTLE_S = 40.0  # Ray finds a lost node by its heartbeats


@dataclass(frozen=True, slots=True)
class RankState:
    """What a rank's process has done since the last look at it."""

    code: int | None  # its exit code, negative for a signal; None while it runs
    output: bytes
    ending: str  # one line, once it has ended
    reply: dict[str, Any] = field(default_factory=dict)


class RankActor:
    """What runs in an actor's process: it starts a process for one rank, which ends with the actor.

    The rank is not the actor's own process, because it needs a main thread for signals, and may hang in a collective.
    """

    def __init__(self, address: str):
        """address: of the actor's node."""
        self._address = address
        self._socket: socket.socket | None = None

    def listen(self) -> tuple[str, int]:
        """Open the port of the ranks' store; returns (address, port). Nothing listens on other addresses."""
        self._socket = socket.create_server((self._address, 0))
        return self._address, self._socket.getsockname()[1]

    def start(self, setup: dict[str, Any], environment: dict[str, str]) -> int:
        """Start the rank; returns its process."""
        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        listening = None if self._socket is None else self._socket.fileno()
        # Ray counts on one thread for each CPU of an actor; a rank decides that itself
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        fds = () if listening is None else (listening,)
        try:
            self._rank: Rank = launch({**setup, "listening": listening}, fds, {**own, **environment}, write)
        finally:
            os.close(write)
        return self._rank.process.pid

    def poll(self) -> RankState:
        """Look at the rank; does not wait."""
        code, output = self._rank.code(), b""
        self._rank.listen()
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._output, 65536):
                output += block
        if code is None:
            return RankState(None, output, "")
        return RankState(code, output, self._rank.ending(), self._rank.reply())

    def stop(self) -> None:
        """Ask the rank to save and end."""
        if self._rank.code() is None:
            self._rank.stop()


class RayRank:
    """The driver's handle of a rank. The driver prints what the rank prints, its progress, on stderr."""

    def __init__(self, ray: Any, index: int, actor: Any, address: str):
        """actor: a `RankActor` whose rank has started. address: of its node."""
        self.index, self._ray, self._actor, self._address = index, ray, actor, address
        self._poll = actor.poll.remote()
        self._state = RankState(None, b"", "")
        self._looked = time.monotonic()

    def code(self) -> int | None:
        return self._state.code

    def reply(self) -> dict[str, Any]:
        return self._state.reply

    def ending(self) -> str:
        return f"{self._state.ending} on {self._address}" if (self.code() or 0) < 0 else self._state.ending

    def stop(self) -> None:
        self._actor.stop.remote()

    def listen(self) -> None:
        """Take the answer to the last look if it is there, and look again; does not wait."""
        if self.code() is None and time.monotonic() > self._looked + POLL_S:
            self._take(0.0)

    def settle(self) -> None:
        """Find out whether the rank has ended, now that another one has failed."""
        for _ in range(2):  # the first answer may be older than the failure
            if self.code() is None:
                self._take(SETTLE_S)

    def _take(self, timeout_s: float) -> None:
        ready, _ = self._ray.wait([self._poll], timeout=timeout_s)
        if not ready:
            return
        self._looked = time.monotonic()
        try:
            self._state = self._ray.get(self._poll)
        except self._ray.exceptions.RayActorError:
            self._state = RankState(-signal.SIGKILL, b"", f"rank {self.index} is gone: its actor or node was lost")
            return
        sys.stderr.write(self._state.output.decode(errors="replace"))
        sys.stderr.flush()
        if self.code() is None:
            self._poll = self._actor.poll.remote()
