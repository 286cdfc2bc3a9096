"""Simulates messages between Gorila's global replay, which is killed and replaced, and the members that fill it.

A rollout is (member, process of the member, number). A batch must contain only rollouts from the newest process of each
member, and only after the replay has enough rollouts.
"""

import itertools
from contextlib import ExitStack, nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import torch

from accel_rl.gorila import global_replay, keeper
from accel_rl.gorila.global_replay import IN_FLIGHT, GlobalReplay, RemoteReplay, ReplayKeeper
from accel_rl.text.errors import RunError
from tests.schedules.actors import SimulatedRay
from tests.schedules.system import System, replaced
from tests.schedules.world import Actor, World

NAME, START, TIMEOUT_S = "run/replay", 3, 5.0
Rollout = tuple[int, int, int]


class Part:
    """The part of the replay that one member fills. A transition is a whole rollout."""

    def __init__(self) -> None:
        self.rollouts: list[Rollout] = []

    def append(self, rollout: Rollout) -> None:
        self.rollouts.append(rollout)

    def __len__(self) -> int:
        return len(self.rollouts)

    def sample(self, n: int) -> Any:
        newest = torch.tensor(self.rollouts[-1:] * n)
        return SimpleNamespace(**dict.fromkeys(global_replay.ReplayBatch.__slots__, newest))


class ReplayMessages:
    """Simulates one order of messages, in which Gorila's members fill a global replay, and a learner draws batches."""

    def __init__(self, world: World, faults: int) -> None:
        """The simulation kills the replay at most `faults` times."""
        self.world, self.system, self._faults = world, System(world), faults
        self._rate = world.rng.choice((0.0, 0.002, 0.01))
        self.sent: set[Rollout] = set()
        self.newest: dict[int, int] = {}
        """Maps each member to the newest process from which the replay has stored a rollout."""
        self._is_disturbed = False
        self.draws = world.rng.random() < 0.5
        """Whether each member also draws batches, as a bundle does."""
        world.on_point = self._maybe_kill

    def main(self) -> None:
        """Run the members and the learner, and check each batch."""
        with self._simulated():
            self.ray = SimulatedRay(self.world, self._replay)
            replay = ReplayKeeper(self.ray, SimpleNamespace(replay=NAME), 2)  # type: ignore[arg-type]
            learner = self.learner = self.world.spawn("learner", self._draw)
            members = [self._spawn(m) for m in range(2)]
            while not (learner.is_over and all(member.is_over for member in members)):
                replay.look()
                self.world.sleep(0.02)
            self.world.check((*members, learner))
            stored = self.ray.actors[NAME].thing.rollouts()
            if len(stored) != len(set(stored)):
                raise AssertionError(f"a rollout is stored twice: {stored}")
            wanted = {r for r in self.sent if r[1] == self.newest[r[0]]}
            if not self._is_disturbed and set(stored) != wanted:
                raise AssertionError(f"the replay has {sorted(stored)}, not {sorted(wanted)}")

    def _spawn(self, member: int) -> Actor:
        return self.world.spawn(f"member {member}", lambda: self._fill(member))

    def _client(self, member: int, life: int) -> RemoteReplay:
        return RemoteReplay(self.ray, NAME, member, life, START, torch.device("cpu"), TIMEOUT_S)

    def _fill(self, member: int) -> None:
        """Send rollouts of a member from one process, or from several processes that replace each other."""
        lives = self.world.rng.choice((1, 2))
        for life in itertools.count():
            try:
                self._live(member, life, is_last=life >= lives - 1)
            except RunError:  # The member lost the replay, and is replaced.
                if not self._is_disturbed:
                    raise
            else:
                if life >= lives - 1:
                    return

    def _live(self, member: int, life: int, is_last: bool) -> None:
        client = self._client(member, life)
        for number in itertools.count():
            if number >= 3 and (not is_last or self.learner.is_over):
                break
            rollout = member, life, number
            self.sent.add(rollout)
            client.append(rollout)  # type: ignore[arg-type]
            if len(client._sent) > IN_FLIGHT:
                raise AssertionError(f"{len(client._sent)} rollouts wait to be stored")
            if self.draws and len(client):
                self._sample(client)
            self.world.sleep(self.world.rng.choice((0.0, 0.02)))
        while client._sent and client._answer(client._sent.popleft()) is not None:
            pass

    def _draw(self) -> None:
        client = self._client(9, 0)
        for _ in range(self.world.rng.randint(1, 4)):
            while not len(client):
                self.world.sleep(0.1)
            with suppress(RunError) if self._is_disturbed else nullcontext():
                self._sample(client)

    def _sample(self, client: RemoteReplay) -> None:
        for _ in range(2):
            batch, last = client.sample(2), client._last.get(2)
            rollouts = {tuple(row) for row in getattr(batch, global_replay.ReplayBatch.__slots__[0]).tolist()}
            if not rollouts <= self.sent:
                raise AssertionError(f"a batch has {rollouts - self.sent}, which were never sent")
            if client._size < START and batch is not last:
                raise AssertionError(f"a batch is of a replay with {client._size} of {START} transitions")

    def _replay(self, setup: Any, sources: int) -> Any:
        schedule = self

        class Checked(GlobalReplay):
            """A global replay without network and environment, which records the newest process of each member."""

            def __init__(self) -> None:
                self._generator = torch.Generator().manual_seed(0)
                self._seed, self._spec, self._returns, self._parts = 0, None, None, {}  # type: ignore[assignment]
                self.config = SimpleNamespace(sampler=SimpleNamespace(envs=1))  # type: ignore[assignment]
                self._replay_config = SimpleNamespace(build=lambda *_: Part())  # type: ignore[assignment]

            def append(self, member: int, life: int, rollout: Any) -> int:
                size = super().append(member, life, rollout)
                schedule.newest[member] = max(life, schedule.newest.get(member, 0))
                if any(lives != schedule.newest.get(m, 0) for m, lives, _ in self.rollouts()):
                    raise AssertionError("the replay has rollouts of two processes of a member")
                return size

            def rollouts(self) -> list[Rollout]:
                parts: Any = self._parts.values()
                return [rollout for _, part in parts for rollout in part.rollouts]

        return Checked()

    def _simulated(self) -> ExitStack:
        return replaced(
            (keeper, "start_named", lambda ray, *a, **k: self.ray.start(ray, *a, **k)),
            (keeper, "time", self.system.time), (global_replay, "time", self.system.time),
            (global_replay, "from_message", lambda message: message),
            (global_replay, "to_message", lambda rollout: rollout),
            (global_replay, "tensor_over", torch.from_numpy),
        )  # fmt: skip

    def _maybe_kill(self) -> None:
        if self._faults <= 0 or self.world.rng.random() >= self._rate or not hasattr(self, "ray"):
            return
        actor = self.ray.actors.get(NAME)
        if actor is not None and not actor.is_dead:
            self._faults -= 1
            self._is_disturbed = True
            self.ray.kill(actor)
