"""A thread writes a checkpoint while training continues.

    caller  | copies the state | trains, and reads segments between its cycles           | is notified of the end
    thread  |                  | hashes and writes segments, state and manifest, renames |

Segments are not copied together with the state, because they may be as large as a whole replay. The caller reads the
segments, because the caller's thread also changes the replay.
"""

import queue
import threading
from collections import deque
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.state_tree import copied
from accel_rl.checkpoints.tensor_file import Segment
from accel_rl.text.errors import RunError

AHEAD = 8  # Maximum number of segments, of about 32 MB each, that have been read and not been written yet
LOOK_S = 0.1


class CheckpointWriter:
    """Writes one checkpoint in a thread. No other checkpoint of the run may be written at the same time."""

    def __init__(
        self, checkpoints: Checkpoints, env_steps: int, state: dict[str, Any], time: dict[str, Any] | None = None
    ):
        """`Checkpoints.save` explains the arguments. The caller may change the state as soon as the constructor has
        returned. The data of a segment must not change until the writer has called its `load`."""
        self.path = checkpoints.path(env_steps)
        self._unread: deque[Segment] = deque()
        self._read: queue.Queue[tuple[str, dict[str, Tensor]] | None] = queue.Queue(AHEAD)
        self._done: Future[Path] = Future()

        def later(segment: Segment) -> Segment:
            if checkpoints.segments.has(segment):
                return segment
            self._unread.append(segment)
            return Segment(segment.name, lambda: self._take(segment.name))

        copy, times = copied(state, later), copied(time, later)

        def write() -> None:
            try:
                self._done.set_result(checkpoints.save(env_steps, copy, times))
            except BaseException as error:  # `step` raises the error in the caller's thread.
                self._done.set_exception(error)

        threading.Thread(target=write, name="checkpoint", daemon=True).start()

    def _take(self, name: str) -> dict[str, Tensor]:
        if (item := self._read.get()) is None:
            raise RunError(f"checkpoint {self.path} was abandoned")
        assert item[0] == name, "segments are read in the order in which they are written"
        return item[1]

    def step(self) -> bool:
        """Read segments for the thread that writes the checkpoint, without waiting for this thread. Return whether the
        checkpoint is complete. Raises RunError if the checkpoint could not be written."""
        while self._unread and not self._read.full() and not self._done.done():
            segment = self._unread.popleft()
            self._read.put((segment.name, segment.load()))
        if not self._done.done():
            return False
        self._done.result()
        return True

    def finish(self) -> None:
        """Wait until the checkpoint is complete. Raises RunError if the checkpoint could not be written."""
        while not self.step():
            wait([self._done], LOOK_S if self._unread else None)

    def abandon(self) -> None:
        """End the thread, without reading further segments."""
        while not self._done.done():
            with suppress(queue.Full):
                self._read.put(None, timeout=LOOK_S)
            wait([self._done], LOOK_S)
