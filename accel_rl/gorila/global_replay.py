"""The global replay is one process that stores the transitions of all actors for all learners (Nair et al. 2015,
section 4).

    member --RemoteReplay--> GlobalReplay (a Ray actor) <--ReplayKeeper-- driver
"""

import time
from collections import deque
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.data.rollout import Rollout
from accel_rl.distributed.communicator import Communicator
from accel_rl.gorila.keeper import Keeper
from accel_rl.gorila.ray_session import NAMESPACE
from accel_rl.gorila.setup import Setup
from accel_rl.gorila.shard import tensor_over
from accel_rl.processes.process import tune_torch
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import ReplayBatch
from accel_rl.settings.registry import find_algorithm
from accel_rl.text.errors import RunError
from accel_rl.training.seeds import Stream, derived_seed


class GlobalReplay:
    """A Ray actor with its own process. Each member that samples fills its own part of the replay;
    all parts have the same capacity. Batches are drawn uniformly from the transitions of all members."""

    def __init__(self, setup: Setup, sources: int):
        """`sources` is the number of members that sample."""
        self.config = setup.enter()
        tune_torch(1)
        assert isinstance(self.config.algo, ReplayAlgorithmConfig)
        self._replay_config = self.config.algo.of_rank(sources).replay
        self._seed = derived_seed(self.config.seed, Stream.RANK, 1_000_000)
        self._generator = torch.Generator().manual_seed(self._seed)
        cls = find_algorithm(self.config.algorithm)
        spec = self.config.spec
        algo = cls(self.config.algo, spec, T=self.config.T, B=self.config.sampler.envs)
        assert isinstance(algo, ReplayAlgorithm)
        self._spec, self._returns = spec, algo.build_returns()
        # {member: (number of the member's process, transitions of this process)}
        self._parts: dict[int, tuple[int, Replay]] = {}

    def append(self, member: int, life: int, rollout: dict[str, Any]) -> int:
        """Append a rollout from process number `life` of a member, and return the number of transitions in the replay.
        If a member's process has been replaced, the transitions of its previous process are discarded."""
        if member not in self._parts or self._parts[member][0] != life:
            seed = self._seed + 1 + len(self._parts)
            B = self.config.sampler.envs
            self._parts[member] = life, self._replay_config.build(self._spec, B, self._returns, "cpu", seed)
        self._parts[member][1].append(from_message(rollout))
        return self.size()

    def size(self) -> int:
        return sum(len(replay) for _, replay in self._parts.values())

    def sample(self, N: int) -> tuple[int, dict[str, Any]]:
        """Return the number of transitions in the replay and a batch of N transitions. If the replay is empty, the
        batch is {}."""
        replays = [replay for _, replay in self._parts.values() if len(replay)]
        if not replays:
            return 0, {}
        weights = torch.tensor([float(len(replay)) for replay in replays])
        drawn = torch.multinomial(weights, N, replacement=True, generator=self._generator)
        numbers = torch.bincount(drawn, minlength=len(replays)).tolist()
        batches = [replay.sample(n) for replay, n in zip(replays, numbers, strict=True) if n]
        names = ReplayBatch.__slots__
        return self.size(), {name: torch.cat([getattr(b, name) for b in batches]).numpy() for name in names}


_FIELDS = ("frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


def to_message(rollout: Rollout) -> dict[str, Any]:
    """Convert a rollout to a message with the arrays that a replay stores. The message contains `final_frames` only for
    steps at which an episode ended."""
    host = rollout.on_host
    message = {name: getattr(host, name).numpy() for name in _FIELDS}
    return {**message, "final": host.final_frames[host.ended].numpy(), "stack": host.stack}


def from_message(message: dict[str, Any]) -> Rollout:
    """Convert a message from `to_message` into a rollout. The final frames of steps at which no episode ended are
    zeros."""
    arrays: dict[str, Any] = {name: tensor_over(message[name]) for name in _FIELDS}
    final = tensor_over(message["final"])
    T, B = arrays["action"].shape
    final_frames = torch.zeros((T, B, *final.shape[1:]), dtype=final.dtype)
    final_frames[arrays["ended"]] = final
    return Rollout(**arrays, final_frames=final_frames, stack=message["stack"])


IN_FLIGHT = 2  # A member has at most IN_FLIGHT rollouts being stored, and IN_FLIGHT batches requested in advance.
LOOK_S = 0.05
SIZE_S = 0.5  # A replay with too few transitions for learning is polled every SIZE_S seconds.


class RemoteReplay(Replay):
    """A member's client of the global replay: it sends rollouts, and fetches batches in advance. If
    the global replay's process is lost, the client connects to its replacement.

    Checkpoints do not contain the transitions of the global replay.
    """

    def __init__(self, ray: Any, name: str, member: int, life: int, start: int, device: torch.device, timeout_s: float):
        """The client draws no batches before the global replay contains `start` transitions. Calls of the replay time
        out after `timeout_s` seconds."""
        self._ray = ray
        self._name = name
        self._member = member
        self._life = life
        self._start = start
        self.device = device
        self._timeout_s = timeout_s
        self._actor: Any = None
        self._sent: deque[Any] = deque()
        self._drawn: deque[tuple[int, Any]] = deque()  # (batch size, call that returns a batch of this size)
        self._last: dict[int, ReplayBatch] = {}  # {batch size: last received batch}
        self._size, self._looked_at = 0, 0.0

    def _replay(self) -> Any:
        """The Ray actor of the global replay. Raises RunError if the actor stays unavailable."""
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
        """Wait for the global replay's answer to a call, and return None if the global replay's process is lost. Raises
        RunError if no answer arrives within the timeout."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call, timeout=self._timeout_s)
        except errors.GetTimeoutError as e:
            raise RunError(f"the global replay has not answered within {self._timeout_s:g} s") from e
        except errors.RayTaskError as e:
            raise RunError(f"the global replay: {e.cause}") from e
        except errors.RayError:  # Ray lost the replay's process, its node, or the answer.
            self._actor, self._size = None, 0
            self._sent.clear()
            self._drawn.clear()
            return None

    def append(self, rollout: Rollout) -> None:
        """Send a rollout to the global replay, after waiting until fewer than IN_FLIGHT earlier rollouts remain to be
        stored."""
        while len(self._sent) >= IN_FLIGHT:
            self._size = self._answer(self._sent.popleft()) or 0
        message = to_message(rollout)
        self._sent.append(self._replay().append.remote(self._member, self._life, message))

    def sample(self, N: int) -> ReplayBatch:
        """Return a batch of N transitions from the global replay. If the global replay has been replaced, return the
        last batch again until the replacement has enough transitions, because a member that waited would send no
        rollouts to the replacement. Raises RunError if no batch is available within timeout_s."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            while len(self._drawn) <= IN_FLIGHT:
                self._drawn.append((N, self._replay().sample.remote(N)))
            n, call = self._drawn.popleft()
            if n != N:
                continue
            self._size, batch = self._answer(call) or (0, {})
            if batch and self._size >= self._start:
                self._last[N] = ReplayBatch(**{name: tensor_over(x).to(self.device) for name, x in batch.items()})
            if N in self._last:
                return self._last[N]
            if time.monotonic() > deadline:
                raise RunError(f"the global replay has had too few transitions for {self._timeout_s:g} s")
            time.sleep(LOOK_S)

    def __len__(self) -> int:
        """The number of transitions in the global replay, or 0 if there are fewer than `start`."""
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
        """Do nothing, because the global replay belongs to all members."""

    def update(self, batch: ReplayBatch, error: Tensor) -> None:
        """Do nothing, because batches are drawn uniformly, without priorities."""

    def anneal(self, progress: float) -> None:
        """Do nothing, because uniform draws have no schedules."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing, because the global replay's own process stores its transitions."""


class ReplayKeeper(Keeper):
    """Starts and replaces the global replay for the driver. The replacement of a lost global replay starts
    empty, and learners wait until it has enough transitions."""

    def __init__(self, ray: Any, setup: Setup, sources: int):
        """`sources` is the number of members that sample."""
        super().__init__(ray, "the global replay", GlobalReplay, setup.replay, setup, sources)

    def look(self) -> None:
        """Replace the global replay's process if the process has died. Raises ConfigError or RunError if no process can
        start."""
        self.ask("size")
        if self.answer():
            self.deaths.worked()
