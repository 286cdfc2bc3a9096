"""A member's client of the global replay, in the place of its algorithm's own replay."""

import time
from collections import deque
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.data.rollout import Rollout
from accel_rl.distributed.communicator import Communicator
from accel_rl.gorila.arrays import tensor_over
from accel_rl.gorila.rollout_message import to_message
from accel_rl.gorila.session import NAMESPACE
from accel_rl.replays.replay import Replay
from accel_rl.system.errors import RunError

IN_FLIGHT = 2  # rollouts that are not stored yet, and batches that are drawn ahead
LOOK_S = 0.05
SIZE_S = 0.5  # between two looks at the size of a replay that is too small


class RemoteReplay(Replay):
    """Sends rollouts, and fetches batches ahead of their use. A replay that is gone for a while is looked for again.

    Its steps are not part of checkpoints.
    """

    def __init__(self, ray: Any, name: str, member: int, life: int, start: int, device: torch.device, timeout_s: float):
        """start: number of transitions before which nothing is drawn. device: of the batches."""
        self._ray, self._name, self._member, self._life = ray, name, member, life
        self._start, self.device, self._timeout_s = start, device, timeout_s
        self._actor: Any = None
        self._sent: deque[Any] = deque()
        self._drawn: deque[tuple[int, Any]] = deque()  # (N, call)
        self._size, self._looked_at = 0, 0.0

    def _replay(self) -> Any:
        """Return the actor. RunError if it has been gone for too long."""
        deadline = time.monotonic() + self._timeout_s
        while self._actor is None:
            try:
                self._actor = self._ray.get_actor(self._name, namespace=NAMESPACE)
            except ValueError as e:
                if time.monotonic() > deadline:
                    raise RunError(f"the global replay has been gone for {self._timeout_s:g} s") from e
                time.sleep(LOOK_S)
        return self._actor

    def _answer(self, call: Any) -> Any:
        """Wait for an answer; None if the replay is gone. RunError if it does not answer."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call, timeout=self._timeout_s)
        except errors.GetTimeoutError as e:
            raise RunError(f"the global replay has not answered within {self._timeout_s:g} s") from e
        except errors.RayTaskError as e:
            raise RunError(f"the global replay: {e.cause}") from e
        except errors.RayActorError:
            self._actor, self._size = None, 0
            self._sent.clear()
            self._drawn.clear()
            return None

    def append(self, rollout: Rollout) -> None:
        """Send a rollout. Waits while IN_FLIGHT earlier ones are not stored yet."""
        while len(self._sent) >= IN_FLIGHT:
            self._size = self._answer(self._sent.popleft()) or 0
        message = to_message(rollout)
        self._sent.append(self._replay().append.remote(self._member, self._life, message))

    def sample(self, N: int) -> ReplayBatch:
        """Return a batch of N transitions."""
        while True:
            while len(self._drawn) <= IN_FLIGHT:
                self._drawn.append((N, self._replay().sample.remote(N)))
            n, call = self._drawn.popleft()
            if n != N or (answer := self._answer(call)) is None:
                continue
            self._size, batch = answer
            if batch:
                return ReplayBatch(**{name: tensor_over(x).to(self.device) for name, x in batch.items()})
            time.sleep(LOOK_S)

    def __len__(self) -> int:
        """Number of transitions; 0 while there are fewer than `start`."""
        if self._size < self._start and time.monotonic() - self._looked_at > SIZE_S:
            self._looked_at = time.monotonic()
            self._size = self._answer(self._replay().size.remote()) or 0
        return self._size if self._size >= self._start else 0

    @property
    def is_capturable(self) -> bool:
        return False

    @property
    def key(self) -> Hashable:
        return None

    @property
    def generator(self) -> torch.Generator:
        raise AssertionError("batches are drawn in another process")

    def join(self, communicator: Communicator) -> None:
        """The replay belongs to all members."""

    def update(self, batch: ReplayBatch, error: Tensor) -> None:
        """Batches are drawn uniformly: there are no priorities."""

    def anneal(self, progress: float) -> None:
        """There are no schedules."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The replay keeps its steps itself."""
