"""A transport carries the calls of learners to the shards of a parameter server. This module defines the interface of
transports, a transport to shards in the same process, and a class that repeats lost calls."""

import time
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from accel_rl.gorila.shard import Shard
from accel_rl.text.errors import RunError

Method = Literal["join", "push", "pull", "status", "snapshot", "restore"]
"""`Method` lists the methods of `Shard` that can be called through a transport."""


class ShardUnavailable(RunError):
    """`ShardUnavailable` is raised if a shard did not answer a call in time, or has ended. The shard may have executed
    the call nevertheless."""


class Future(Protocol):
    """A `Future` represents a shard's answer to a call, which may not have arrived yet."""

    def done(self) -> bool:
        """Return whether the shard's answer has arrived or the call has failed."""

    def result(self, timeout_s: float) -> Any:
        """Wait for the shard's answer, and return the answer. Raises ShardUnavailable, with the shard's name, if no
        answer arrives within timeout_s."""


class Transport(Protocol):
    """A transport carries calls from learners to shards. The calls of one process to one shard are executed in the
    order in which they are made. A transport never repeats a call."""

    @property
    def shards(self) -> int:
        """Return the number of shards."""

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        """Call a method of a shard without waiting. The tensors in `arguments` must not change until the answer
        arrives."""


class Answered:
    """`Answered` is a `Future` whose call has been executed."""

    def __init__(self, value: Any):
        self._value = value

    def done(self) -> bool:
        return True

    def result(self, timeout_s: float) -> Any:
        return self._value


class InProcess:
    """`InProcess` is a transport to shards in the learner's own process. `call` executes the shard's method
    immediately, and raises the errors that the method raises."""

    def __init__(self, shards: Sequence[Shard]):
        self._shards = list(shards)

    @property
    def shards(self) -> int:
        return len(self._shards)

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        return Answered(getattr(self._shards[shard], method)(*arguments))


RETRY_S = 0.05  # A lost call is repeated after RETRY_S seconds.


class ShardCalls:
    """`ShardCalls` calls shards through a transport, and raises RunError if a shard has not answered for timeout_s."""

    def __init__(self, transport: Transport, timeout_s: float):
        self.transport, self._timeout_s = transport, timeout_s
        # The time of the first lost call to each shard that has not answered since, and None for other shards
        self._silent_since: list[float | None] = [None] * transport.shards

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        """Call a shard without waiting for the answer."""
        return self.transport.call(shard, method, *arguments)

    def ask(self, shard: int, method: Method, *arguments: Any) -> Any:
        """Call a shard and wait for the answer. A lost call is repeated, which is harmless for all methods except
        "push". Raises RunError if the shard has not answered for timeout_s."""
        assert method != "push"
        while (answer := self.answer(shard, self.call(shard, method, *arguments))) is None:
            time.sleep(RETRY_S)
        return answer

    def answer(self, shard: int, future: Future) -> Any:
        """Wait for the answer to a call, and return None if the call was lost. Raises RunError if the shard has not
        answered for timeout_s."""
        began = time.monotonic()
        try:
            answer = future.result(self._timeout_s)
        except ShardUnavailable as e:
            since = self._silent_since[shard] = self._silent_since[shard] or began
            if time.monotonic() - since < self._timeout_s:
                return None
            raise RunError(f"shard {shard} has not answered for {self._timeout_s:g} s: {e}") from e
        self._silent_since[shard] = None
        return answer
