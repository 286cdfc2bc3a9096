"""A learner's calls to shards, with patience for shards that are gone for a while."""

import time
from typing import Any

from accel_rl.gorila.transport import Future, Method, ShardUnavailable, Transport
from accel_rl.system.errors import RunError

RETRY_S = 0.05  # pause before a lost call is repeated


class ShardCalls:
    """Calls shards through a transport. A shard that has not answered for timeout_s ends the run."""

    def __init__(self, transport: Transport, timeout_s: float):
        self.transport, self._timeout_s = transport, timeout_s
        self._silent_since: list[float | None] = [None] * transport.shards  # time.monotonic(); None: it answers

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        """Call a shard; does not wait."""
        return self.transport.call(shard, method, *arguments)

    def ask(self, shard: int, method: Method, *arguments: Any) -> Any:
        """Call a shard and wait for its answer; call again if it is lost, which changes nothing for all methods but
        "push". RunError if the shard has not answered for timeout_s."""
        assert method != "push"
        while (answer := self.answer(shard, self.call(shard, method, *arguments))) is None:
            time.sleep(RETRY_S)
        return answer

    def answer(self, shard: int, future: Future) -> Any:
        """Wait for an answer; None if the call was lost. RunError if the shard has not answered for timeout_s."""
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
