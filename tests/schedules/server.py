"""Simulates messages between learners and the shards of a parameter server, which may be killed.

In each shard, the gradient of update number i is 1 at parameter i and 0 elsewhere, and the optimizer subtracts the
gradient. Parameter i therefore counts how often update i was made: at most once, and exactly once if no shard was lost.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.gorila import shard_actors, sharded_sync, transport
from accel_rl.gorila.shard import Answer, Pulled, Push, Shard, Version
from accel_rl.gorila.shard_actors import RayShards, ShardActor
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.gorila.transport import ActorTransport
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizer import ALIGNMENT
from accel_rl.settings.gorila_settings import ParameterServerConfig
from tests.gorila.made_up import Subtract
from tests.schedules.actors import SimulatedRay
from tests.schedules.system import System, replaced
from tests.schedules.world import Actor, World

WIDTH = ALIGNMENT
"""Number of parameters of a shard, and the largest number of updates."""
TIMEOUT_S = 1.0


class ParameterServer:
    """Simulates learners, which push gradients to the shards of a parameter server."""

    def __init__(self, world: World, faults: int) -> None:
        """The simulation kills at most `faults` shards or learners."""
        self.world, self.system, self._faults = world, System(world), faults
        rng = world.rng
        self.shards = rng.choice((1, 2))
        self.config = ParameterServerConfig(
            shards=self.shards, in_flight=rng.choice((0, 1, 2)),
            max_delay=rng.choice((2, 100)), outlier_deviations=0.0, timeout_s=TIMEOUT_S,
        )  # fmt: skip
        self.size = WIDTH * self.shards
        self.parts = [slice(s * WIDTH, (s + 1) * WIDTH) for s in range(self.shards)]
        self._updates = itertools.count()
        self.updates_made: list[int] = []
        """Numbers of the updates that were pushed."""
        self.lost: set[int] = set()
        """Updates that need not be in the parameters: stale ones, and those of lost shards and learners."""
        self._origins: defaultdict[Version, set[Shard]] = defaultdict(set)
        """Maps each version of the parameters to the shards that have answered a pull with it."""
        self._rate = rng.choice((0.0, 0.003, 0.01))
        self._is_disturbed = False
        world.on_point = self._maybe_kill

    def main(self) -> None:
        """Run all learners, and check the parameters of the shards."""
        with self._simulated():
            self.ray = SimulatedRay(self.world, lambda shard: ShardActor(_copied(shard)))
            first = self._sync("learner-0")
            self.server = RayShards(self.ray, first.build_shards())
            rng = self.world.rng
            actors = [self._spawn(f"learner-{i}", self._learn) for i in range(rng.choice((1, 2, 3, 4)))]
            while not all(actor.is_over for actor in actors):
                # `look` replaces shards that were killed or do not answer in time.
                if self.server.look(TIMEOUT_S / 4):
                    self._is_disturbed = True
                if rng.random() < 0.2:
                    self.server.save(TIMEOUT_S / 4)
                self.world.sleep(0.01)
            self.world.check(actors)
            self._check()

    def _spawn(self, name: str, function: Callable[[str], None]) -> Actor:
        return self.world.spawn(name, lambda: function(name))

    def _sync(self, name: str) -> ShardedSync:
        return ShardedSync(_flat(self.size), Subtract, None, self.config, name)

    def _gradient(self, update: int) -> Tensor:
        gradient = torch.zeros(self.size)
        gradient[update::WIDTH] = 1.0
        return gradient

    # Learners

    def _learn(self, name: str) -> None:
        """Train one learner in one process, or in a first process that ends and a second that continues."""
        for _ in range(self.world.rng.choice((1, 1, 2))):
            sync = self._sync(name)
            sync.connect(ActorTransport(self.ray, self.server.names))
            for _ in range(self.world.rng.randint(1, 5)):
                sync.pull()
                update = next(self._updates)
                self.updates_made.append(update)
                sync.flat.grad.copy_(self._gradient(update))
                self._ages(sync, lambda sync=sync: sync.step(1.0, torch.zeros(())))
                if self.world.rng.random() < 0.3:
                    self._ages(sync, sync.pull_now)
                self.world.point()
            self._ages(sync, lambda sync=sync: sync._collect(0))
            self._ages(sync, sync.pull_now)
            self._check_counts(sync)

    def _ages(self, sync: ShardedSync, act: Callable[[], Any]) -> None:
        """Call `act`, and check that the learner did not replace its parameters by older ones."""
        before = list(sync._versions)
        act()
        for old, new in zip(before, sync._versions, strict=True):
            if old is not None and new is not None and old.epoch == new.epoch and new.updates < old.updates:
                raise AssertionError(f"{sync.learner}: its parameters are older than before")

    def _check_counts(self, sync: ShardedSync) -> None:
        if sync.counts["duplicate"]:
            raise AssertionError(f"{sync.learner}: {sync.counts['duplicate']} pushes are duplicates")
        if not self._is_disturbed and (sync.counts["lost"] or sync.counts["refused"]):
            raise AssertionError(f"{sync.learner}: {sync.counts}")

    # Checks

    def _note(self, shard: Shard, push: Push, answer: Answer) -> None:
        """Record the updates of a push that a shard refused, and check that pushes were accepted rightly."""
        updates = torch.nonzero(push.gradient).flatten().tolist()
        if answer != "accepted":
            self.lost.update(updates)
        elif shard not in self._origins[push.version]:
            raise AssertionError("a push of a lost shard's parameters was accepted")
        elif not 0 <= shard.version.pushes - 1 - push.version.pushes <= shard.max_delay:
            raise AssertionError("a push is older than --gorila.max-delay")

    def _check(self) -> None:
        for name, part in zip(self.server.names, self.parts, strict=True):
            counts = -self.ray.actors[name].thing._shard._parameters
            wrong = [i for i in range(len(counts)) if counts[i] not in (0.0, float(i in self.updates_made))]
            if wrong:
                raise AssertionError(f"{name}: updates {wrong} count {counts[wrong].tolist()} times")
            missing = [i for i in self.updates_made if not counts[i]]
            if not self._is_disturbed and set(missing) - self.lost:
                raise AssertionError(f"{name}: the updates {missing} are missing ({part})")

    def _simulated(self) -> ExitStack:
        note, origins = self._note, self._origins
        push_to, pull_from = Shard.push, Shard.pull

        def push(self: Shard, message: Any) -> Answer:
            answer = push_to(self, message)
            note(self, message, answer)
            return answer

        def pull(self: Shard, *arguments: Any) -> Pulled:
            pulled = pull_from(self, *arguments)
            origins[pulled.version].add(self)
            return pulled

        return replaced(
            (Shard, "pull", pull), (shard_actors, "start_named", lambda ray, *a, **k: self.ray.start(ray, *a, **k)),
            (shard_actors, "time", self.system.time), (sharded_sync, "time", self.system.time),
            (transport, "time", self.system.time), (Shard, "push", push),
        )  # fmt: skip

    def _maybe_kill(self) -> None:
        if self._faults <= 0 or self.world.rng.random() >= self._rate or not hasattr(self, "server"):
            return
        actor = self.ray.actors[self.world.rng.choice(self.server.names)]
        if not actor.is_dead:
            self._faults -= 1
            self._is_disturbed = True
            self.ray.kill(actor)


def _flat(size: int) -> FlatParameters:
    model = nn.Linear(size, 1, bias=False)
    nn.init.zeros_(model.weight)
    return FlatParameters(model)


def _copied(shard: Shard) -> Shard:
    """Return a copy of a shard, as Ray would pass it to the shard's actor."""
    result = Shard(shard._parameters, Subtract(0), shard.max_delay)  # type: ignore[arg-type]
    result._sequences, result.version = dict(shard._sequences), shard.version
    return result
