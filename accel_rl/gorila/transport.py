"""Calls from a learner or an evaluator to the Ray actors of the parameter server's shards.

Ray copies the arguments before a call returns, sends large tensors through its object store, and executes the calls of
one process to one shard in the order in which they are made.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from accel_rl.text.errors import RunError

Method = Literal["join", "push", "pull", "status", "snapshot"]
"""The methods of `Shard` that other processes call."""


class ShardUnavailable(RunError):
    """A shard did not answer a call in time, or is lost. The shard may nevertheless have executed the call."""


class ActorCall:
    """A call of a shard's actor, whose answer may not have arrived yet."""

    def __init__(self, ray: Any, name: str, ref: Any, lost: Callable[[], object] = lambda: None):
        """`ref` is Ray's reference to the answer, or None if no actor of this name exists. `lost` is called if no
        answer arrives."""
        self._ray, self._name = ray, name
        self._ref = ref
        self._lost = lost

    def done(self) -> bool:
        """Whether the answer has arrived or the call has failed."""
        return self._ref is None or bool(self._ray.wait([self._ref], timeout=0)[0])

    def result(self, timeout_s: float) -> Any:
        """Wait for the shard's answer. Raises ShardUnavailable if the shard is lost or does not answer in time. An
        error that the shard raised is raised again."""
        errors = self._ray.exceptions
        if self._ref is None:
            raise ShardUnavailable(f"{self._name} is gone: no actor has this name")
        try:
            return self._ray.get(self._ref, timeout=timeout_s)
        except errors.RayTaskError as e:
            raise e.cause from e
        except errors.GetTimeoutError as e:
            self._lost()
            raise ShardUnavailable(f"{self._name} has not answered within {timeout_s:g} s") from e
        except errors.RayError as e:  # The actor's process, its node, or the object store with the answer was lost.
            self._lost()
            reason = str(e).partition("\n")[0]
            raise ShardUnavailable(f"{self._name} is gone: {reason}") from e


class ActorTransport:
    """Calls shards by the names of their actors. A call is never repeated. After a call without an answer, the actor is
    looked up again, because the driver may have replaced it."""

    def __init__(self, ray: Any, names: Sequence[str]):
        """`ray` is the module ray, which `ray_session` has connected to a cluster."""
        self._ray = ray
        self._names = list(names)
        self._actors: dict[str, Any] = {}

    @property
    def shards(self) -> int:
        return len(self._names)

    def call(self, shard: int, method: Method, *arguments: Any) -> ActorCall:
        """Call a method of a shard without waiting for the answer."""
        name = self._names[shard]
        try:
            if name not in self._actors:
                self._actors[name] = self._ray.get_actor(name)
        except (ValueError, self._ray.exceptions.RayError):
            return ActorCall(self._ray, name, None)
        ref = self._actors[name].call.remote(method, *arguments)
        return ActorCall(self._ray, name, ref, lambda: self._actors.pop(name, None))


RETRY_S = 0.05  # A lost call is repeated after RETRY_S seconds.


class ShardCalls:
    """Waits for answers of shards, and raises RunError if a shard has not answered for timeout_s."""

    def __init__(self, transport: ActorTransport, timeout_s: float):
        self.transport, self._timeout_s = transport, timeout_s
        # For each shard, the time of its first unanswered call, or None if it answered its last call
        self._silent_since: list[float | None] = [None] * transport.shards

    def ask(self, shard: int, method: Method, *arguments: Any) -> Any:
        """Call a shard and wait for the answer. A lost call is repeated, so the method must not be "push".
        Raises RunError if the shard has not answered for timeout_s."""
        assert method != "push"
        while (answer := self.answer(shard, self.transport.call(shard, method, *arguments))) is None:
            time.sleep(RETRY_S)
        return answer

    def answer(self, shard: int, call: ActorCall) -> Any:
        """Wait for the answer to a call, and return None if the call was lost. Raises RunError if the shard has not
        answered for timeout_s."""
        began = time.monotonic()
        try:
            answer = call.result(self._timeout_s)
        except ShardUnavailable as e:
            since = self._silent_since[shard] = self._silent_since[shard] or began
            if time.monotonic() - since < self._timeout_s:
                return None
            raise RunError(f"shard {shard} has not answered for {self._timeout_s:g} s: {e}") from e
        self._silent_since[shard] = None
        return answer
