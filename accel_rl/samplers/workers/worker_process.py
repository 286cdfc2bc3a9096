"""The pool's handle of a worker process, to start it, exchange messages with it, and end it."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accel_rl.processes import child
from accel_rl.processes.process import SLICE_S, Patience, patience_s
from accel_rl.samplers.workers.channel import EventFd
from accel_rl.samplers.workers.control import Control, Disconnected
from accel_rl.samplers.workers.messages import Reply, Request, WorkerSetup
from accel_rl.text.errors import RunError


class WorkerLost(RunError):
    """A worker process ended, or did not answer in time, during an exchange of messages."""


@dataclass(slots=True)
class WorkerProcess:
    """A worker process, with the socket for its messages and the event that wakes it."""

    index: int
    process: "subprocess.Popen[bytes]"
    control: Control
    event: EventFd
    is_ready: bool = False
    has_joined: bool = False
    checked_at: float = field(default_factory=lambda: time.monotonic())
    waited_s: float = 0.0  # seconds from the start to checked_at, without suspensions of this process

    @classmethod
    def launch(
        cls, index: int, event: EventFd, fds: set[int], variables: Mapping[str, str] | None = None
    ) -> "WorkerProcess":
        """Start a worker process, which waits for its set-up message. The process inherits the event and the file
        descriptors `fds`. `variables` are additional environment variables."""
        ours, theirs = socket.socketpair()
        process = child.start(
            child.command("accel_rl.samplers.workers.worker", str(theirs.fileno())),
            pass_fds=sorted({theirs.fileno(), *event.fds, *fds}),
            stdin=subprocess.DEVNULL,
            env=_environment(variables),
        )
        theirs.close()
        return cls(index, process, Control(ours), event)

    def set_up(self, setup: WorkerSetup) -> None:
        # An error is ignored: if the worker process is already dead, the next read from its socket raises Disconnected.
        with contextlib.suppress(Disconnected):
            self.control.send(setup)

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, request: Request, timeout_s: float, blob: bytes = b"") -> None:
        """Send a request. Raises RunError if the worker is lost or the request cannot be sent in time."""
        with self._talking(request.kind, timeout_s):
            self.control.send(request, blob)

    def answer(self, kind: str, timeout_s: float) -> tuple[Reply, bytes]:
        """Wait for the reply to a request. Raises RunError if the worker is lost, reports an error, or exceeds the
        timeout."""
        with self._talking(kind, timeout_s):
            reply, blob = self.control.receive()
        self.check(reply)
        return reply, blob

    def ask(self, request: Request, timeout_s: float) -> tuple[Reply, bytes]:
        """Send a request, and wait for the reply. A stop request shortens the timeout, even if it arrives during the
        wait. Raises RunError if the worker is lost, reports an error, or exceeds the timeout."""
        self.tell(request, patience_s(timeout_s))
        patience, poll = Patience(timeout_s), select.poll()
        poll.register(self.control.sock, select.POLLIN)
        while not (patience.over or patience.spend(lambda seconds: poll.poll(seconds * 1000))):
            patience.left = patience_s(patience.left)
        return self.answer(request.kind, max(patience.left, SLICE_S))

    def check(self, reply: Reply) -> None:
        """Raise RunError for an error that the worker reports, with the worker's traceback as a note."""
        if reply.error:
            error = RunError(f"worker {self.index} (pid {self.pid}): {reply.error}")
            if reply.traceback:
                error.add_note(reply.traceback)
            raise error

    @contextlib.contextmanager
    def _talking(self, kind: str, timeout_s: float) -> Iterator[None]:
        try:
            self.control.sock.settimeout(timeout_s)
            yield
            self.control.sock.settimeout(None)
        except Disconnected as e:
            raise WorkerLost(f"worker {self.index} (pid {self.pid}) was lost at {kind} (code {self.reap()})") from e

    def ends(self, timeout_s: float) -> bool:
        """Wait until the process has ended, for at most timeout_s. Return whether it has ended."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def reap(self) -> int:
        """Return the exit code. A worker that has closed its socket but does not end within a second is killed."""
        if not self.ends(1.0):
            self.process.kill()
        return self.process.wait()

    def is_late(self, timeout_s: float) -> bool:
        """Return whether the worker is not ready after timeout_s. The time between two calls counts as at most a
        quarter of timeout_s, because in a longer time this process, and most likely the worker, was suspended."""
        if self.is_ready:
            return False
        now = time.monotonic()
        self.waited_s += min(now - self.checked_at, timeout_s / 4)
        self.checked_at = now
        return self.waited_s >= timeout_s

    def obituary(self, how: str = "") -> str:
        """Return a message about the process's end: its index, its pid, and `how` it ended, by default the signal or
        exit code."""
        code = self.reap()
        ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        return f"worker {self.index} (pid {self.pid}) {how or ending}"

    def close(self) -> None:
        self.control.close()
        self.event.close()


@dataclass(slots=True)
class History:
    """Counts deaths of a worker's successive processes: all deaths (`generation`), consecutive deaths before the
    process was ready, and deaths since the last complete rollout."""

    generation: int = 0
    failed_starts: int = 0
    deaths_in_a_row: int = 0


def _environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    """Return environment variables that limit libraries to one thread, so that no worker starts a thread on every
    core."""
    one = {k: "1" for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return child.environment({**os.environ, **one, **(variables or {})})
