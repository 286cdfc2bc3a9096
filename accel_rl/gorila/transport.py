"""How a learner reaches the shards of the parameter server: the interface, and its form within one process."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from accel_rl.gorila.shard import Shard
from accel_rl.system.errors import RunError

Method = Literal["join", "push", "pull", "status", "snapshot", "restore"]
"""Methods of `Shard` that are called through a transport."""


class ShardUnavailable(RunError):
    """A call was not answered: the shard is gone, or too slow. It may have carried out the call."""


class Future(Protocol):
    """The answer to a call, which may still be on its way."""

    def done(self) -> bool:
        """Whether `result` returns or raises at once."""

    def result(self, timeout_s: float) -> Any:
        """Wait for the answer and return it. ShardUnavailable, naming the shard, if there is none within timeout_s."""


class Transport(Protocol):
    """Calls to shards. Calls of one process to one shard are carried out in their order, and never repeated."""

    @property
    def shards(self) -> int:
        """Number of shards."""

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        """Call a method of a shard; does not wait for the answer. Tensors that are sent may not be changed until it is
        there."""


class Answered:
    """A call that has been carried out."""

    def __init__(self, value: Any):
        self._value = value

    def done(self) -> bool:
        return True

    def result(self, timeout_s: float) -> Any:
        return self._value


class InProcess:
    """Shards in the learner's own process. A call is carried out at once; its errors are raised by `call`."""

    def __init__(self, shards: Sequence[Shard]):
        self._shards = list(shards)

    @property
    def shards(self) -> int:
        return len(self._shards)

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        return Answered(getattr(self._shards[shard], method)(*arguments))
