"""The transport between learners and shards that are Ray actors."""

from collections.abc import Sequence
from typing import Any

from accel_rl.gorila.arrays import with_arrays, with_tensors
from accel_rl.gorila.session import NAMESPACE
from accel_rl.gorila.transport import Future, Method, ShardUnavailable


class RayTransport:
    """Calls shards by the names of their actors, so that it finds an actor that takes the place of a dead one."""

    def __init__(self, ray: Any, names: Sequence[str]):
        self._ray, self._names = ray, list(names)
        self._actors: list[Any] = [None] * len(self._names)

    @property
    def shards(self) -> int:
        return len(self._names)

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        if self._actors[shard] is None:
            try:
                self._actors[shard] = self._ray.get_actor(self._names[shard], namespace=NAMESPACE)
            except ValueError:  # there is no actor of this name
                return Gone(self._names[shard])
        return RayCall(self, shard, self._actors[shard].call.remote(method, *map(with_arrays, arguments)))

    def answer(self, shard: int, ref: Any, timeout_s: float) -> Any:
        """Wait for the answer of a shard's actor. An error of the shard itself is raised as it is."""
        exceptions = self._ray.exceptions
        try:
            return with_tensors(self._ray.get(ref, timeout=timeout_s))
        except exceptions.GetTimeoutError as e:
            raise ShardUnavailable(f"{self._names[shard]} has not answered within {timeout_s:g} s") from e
        except exceptions.RayActorError as e:
            self._actors[shard] = None
            raise ShardUnavailable(f"{self._names[shard]} is gone") from e
        except exceptions.RayTaskError as e:
            raise e.cause from e


class RayCall:
    """A call that Ray carries out."""

    def __init__(self, transport: RayTransport, shard: int, ref: Any):
        self._transport, self._shard, self._ref = transport, shard, ref

    def done(self) -> bool:
        ready, _ = self._transport._ray.wait([self._ref], timeout=0)
        return bool(ready)

    def result(self, timeout_s: float) -> Any:
        return self._transport.answer(self._shard, self._ref, timeout_s)


class Gone:
    """A call to a shard that has no actor."""

    def __init__(self, name: str):
        self._name = name

    def done(self) -> bool:
        return True

    def result(self, timeout_s: float) -> Any:
        raise ShardUnavailable(f"{self._name} is gone")
