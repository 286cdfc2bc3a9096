"""Synchronizes gradients through the shards of a parameter server (Nair et al. 2015, sections 3.1, 4 and 4.2)."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from accel_rl.distributed.central import chunks
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.guarded_step import SkippedUpdates
from accel_rl.gorila.shard import Pulled, Push, Shard, Snapshot, Version, from_snapshots, to_snapshots
from accel_rl.gorila.transport import ActorCall, ActorTransport, ShardCalls
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer, Rate
from accel_rl.settings.gorila_settings import ParameterServerConfig


class _Pull(NamedTuple):
    number: int  # Pulls are numbered in the order of their requests.
    call: ActorCall


class ShardedSync(GradientSync):
    r"""Pushes each slice of the gradient to the shard that stores this slice of the parameters, and pulls
    the parameters of all shards. `connect` must be called before the first update.

    An update computes the gradient at the last pulled parameters, clips the gradient by its norm over all slices, and
    pushes each slice with the version of the parameters at which the slice was computed. A gradient is not pushed if it
    is not finite or its loss is an outlier.

        in_flight 0:  backward | push | answers, new parameters | backward | push ...
        in_flight 1:  backward | push | backward | push | backward ...
                                       \-- answers, new parameters: taken here if they have arrived, waited for at
                                           the end of the next update
    """

    def __init__(
        self,
        flat: FlatParameters,
        build_optimizer: Callable[[int], Optimizer],
        max_norm: float | None,
        config: ParameterServerConfig,
        learner: str = "learner-0",
        usual_loss: float = 0.0,
    ):
        """`build_optimizer(n)` builds a shard's optimizer of n parameters. `learner` is the name by which the shards
        identify the learner. `usual_loss` is the `usual` of `OutlierGuard`."""
        # No optimizer is built here, because the shards of the parameter server step their own optimizers.
        self.flat = flat
        self.max_norm = max_norm
        self.config = config
        self.learner = learner
        self.parts = chunks(len(flat.data), config.shards)
        self._build_optimizer = build_optimizer
        self._versions: list[Version | None] = [None] * len(self.parts)
        self._sequence = 0  # The sequence number of the learner's last push
        # `_pulls` is the number of pulls requested so far. `_taken` stores the number of each shard's last pull that
        # returned parameters. `_in_flight` stores, for each unanswered update, a pair (push, pull) per shard.
        self._pulls, self._taken = 0, [0] * len(self.parts)
        self._in_flight: deque[list[tuple[ActorCall, _Pull]]] = deque()
        self._snapshots: list[Snapshot] = []  # The shards' states in a loaded checkpoint
        self._outliers = OutlierGuard(config.outlier_deviations, usual_loss)
        self.skips = SkippedUpdates(torch.device("cpu"))
        self.counts = Counter[str]()
        """The number of pushes with each answer of the shards, and `lost` pushes without an answer, which a shard may
        or may not have applied. One update consists of one push to each shard. `outliers` counts the gradients that the
        learner discarded because the loss of the batch was an outlier."""
        self.refreshed = 0  # Number of times that new parameters were pulled
        self.bytes_moved = 0  # Bytes of gradients pushed and parameters pulled
        self.times = {"sync_s": 0.0}

    # -- shards ------------------------------------------------------------

    def build_shards(self) -> list[Shard]:
        """Build the shards of the parameter server. If a checkpoint's state has been loaded, the shards are restored
        from this state."""
        shards = [
            Shard(self.flat.data[p], self._build_optimizer(p.stop - p.start), self.config.delay_limit)
            for p in self.parts
        ]
        for shard, snapshot in zip(shards, self._snapshots, strict=False):
            shard.restore(snapshot)
        return shards

    def connect(self, transport: ActorTransport) -> None:
        """Connect the learner to the shards, and pull all parameters. Raises ValueError if the number of shards of
        `transport` is not this learner's number of slices."""
        if transport.shards != len(self.parts):
            raise ValueError(f"{transport.shards} shards, but the parameters are cut into {len(self.parts)} slices")
        self._calls = ShardCalls(transport, self.config.timeout_s)
        joined = [self._calls.ask(shard, "join", self.learner) for shard in range(len(self.parts))]
        self._sequence = max(self._sequence, *joined)
        self._versions = [None] * len(self.parts)
        for shard in range(len(self.parts)):
            self._pulls += 1
            self._copy(shard, self._calls.ask(shard, "pull", None), self._pulls)
        self.refreshed += 1

    def pull(self) -> None:
        """If in_flight is 0, wait for the newest parameters. If in_flight is above 0, use the parameters that have
        already arrived."""
        if self.config.in_flight:
            self._collect()
        else:
            self.pull_now()

    def pull_now(self) -> bool:
        """Wait for the newest parameters of all shards, and return whether any parameters have changed."""
        began, before = time.monotonic(), list(self._versions)
        for shard, answer in enumerate([self._pull(shard) for shard in range(len(self.parts))]):
            self._take(shard, answer)
        self.refreshed += 1
        self.times["sync_s"] += time.monotonic() - began
        return self._versions != before

    @property
    def server_updates(self) -> int:
        """The number of updates of the parameter server, as of the last parameters pulled from the first shard."""
        version = self._versions[0]
        return version.updates if version is not None else 0

    # -- updates ------------------------------------------------------------

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        norm = clip_by_norm_(self.flat.grad, self.max_norm)
        is_finite = torch.isfinite(norm + loss).cpu()
        self.skips.count(~is_finite)
        if is_finite:
            if self._outliers.is_outlier(float(loss)):
                self.counts["outliers"] += 1
            else:
                self._push(float(learning_rate))
        return norm

    def _push(self, learning_rate: float) -> None:
        began = time.monotonic()
        gradient = self.flat.grad.detach().cpu()
        self._sequence += 1
        sent = []
        for shard, part in enumerate(self.parts):
            version = self._versions[shard]
            assert version is not None, "ShardedSync.connect was not called"
            push = Push(self.learner, self._sequence, version, learning_rate, gradient[part])
            sent.append((self._calls.transport.call(shard, "push", push), self._pull(shard)))
        self.bytes_moved += 4 * len(gradient)
        self._in_flight.append(sent)
        self._collect(self.config.in_flight)
        self.refreshed += 1
        self.times["sync_s"] += time.monotonic() - began

    def _collect(self, most: int | None = None) -> None:
        """Process the shards' answers that have arrived. With `most`, wait until at most `most` updates are
        unanswered."""
        while self._in_flight:
            oldest = self._in_flight[0]
            must_wait = most is not None and len(self._in_flight) > most
            if not must_wait and not all(push.done() and pull.call.done() for push, pull in oldest):
                return
            self._in_flight.popleft()
            for shard, (push, pull) in enumerate(oldest):
                self.counts[self._calls.answer(shard, push) or "lost"] += 1
                self._take(shard, pull)

    def _pull(self, shard: int) -> _Pull:
        self._pulls += 1
        return _Pull(self._pulls, self._calls.transport.call(shard, "pull", self._versions[shard]))

    def _take(self, shard: int, pull: _Pull) -> None:
        """Copy the parameters of a shard's answer to a pull, unless a later pull has returned newer parameters."""
        pulled: Pulled | None = self._calls.answer(shard, pull.call)
        if pulled is not None and pulled.parameters is not None and pull.number >= self._taken[shard]:
            self._copy(shard, pulled, pull.number)

    def _copy(self, shard: int, pulled: Pulled, number: int) -> None:
        assert pulled.parameters is not None
        self.flat.data[self.parts[shard]].copy_(pulled.parameters)
        self.bytes_moved += 4 * len(pulled.parameters)
        self._versions[shard], self._taken[shard] = pulled.version, number

    # -- checkpoints ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Wait for all answers, and return the state of the learner."""
        self._collect(0)
        self.pull_now()
        return self.state_of([])

    def state_of(self, snapshots: list[Snapshot]) -> dict[str, Any]:
        """The state of the learner and of the shards. `snapshots` contains one snapshot per shard, or is empty
        if the state of the shards is not saved."""
        shards = from_snapshots(snapshots) if snapshots else {"parameters": self.flat.data}
        return {
            **shards,
            "sequence": self._sequence,
            "outliers": self._outliers.state_dict(),
            "counts": dict(self.counts),
            **self.skips.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state into the learner, and into shards that are built later. Raises ValueError if the number of
        shards in the state is not that of this run."""
        self._snapshots = to_snapshots(state, self.parts) if "shards" in state else []
        self.flat.data.copy_(state["parameters"])
        self._sequence = state["sequence"]
        self._outliers.load_state_dict(state["outliers"])
        self.counts = Counter(state["counts"])
        self.skips.load_state_dict(state)


WARM_UP = 100
"""The first WARM_UP losses of a learner are never outliers."""
SHARE = 0.001
"""A new loss has the weight SHARE in the running mean and deviation of the losses."""


class OutlierGuard:
    """Detects outliers by a running mean and deviation of |loss| (Nair et al. 2015, section 4.2).

        |loss| > mean + max(k deviation, usual)

    Nair et al. state neither the number of deviations k ("several") nor the averaging window. In this project, the
    first 1 / SHARE losses have equal weights; afterwards, the weight of older losses decays exponentially. The mean and
    the deviation include outliers, so that the guard adapts to a lasting change of the loss.

    `usual` is this project's addition: an upper bound on what one transition with an unexpected reward can add to the
    loss of a batch. Without `usual`, if rewards are rare, the guard would discard batches because they contain a
    reward. For example, in Pong (batches of 8, 20,000 updates) the guard discarded 26 % of the batches with a won
    point, and 0.6 % of the batches with lost points only.
    """

    def __init__(self, deviations: float, usual: float = 0.0):
        """A loss is an outlier if it exceeds the mean by more than `deviations` standard deviations; with 0, no loss is
        an outlier."""
        self.deviations, self.usual = deviations, usual
        self._seen = 0
        self._mean = 0.0
        self._variance = 0.0

    @property
    def bound(self) -> float:
        """The bound of |loss| above which the next loss is an outlier."""
        return self._mean + max(self.deviations * math.sqrt(self._variance), self.usual)

    def is_outlier(self, loss: float) -> bool:
        """Record a finite loss, and return whether the loss exceeds the bound computed from earlier losses."""
        x = abs(loss)
        result = self.deviations > 0 and self._seen >= WARM_UP and x > self.bound
        self._seen += 1
        share = max(SHARE, 1 / self._seen)
        distance = x - self._mean
        self._mean += share * distance
        self._variance = (1 - share) * (self._variance + share * distance * distance)
        return result

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._seen, "mean": self._mean, "variance": self._variance}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seen = state["seen"]
        self._mean = state["mean"]
        self._variance = state["variance"]
