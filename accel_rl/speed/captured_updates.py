"""On a GPU, the advantages of a rollout and each update are captured as CUDA graphs, and replayed without Python.

    from Python    rollout | copy       | indices 1 | copy     | indices 2 | copy     | ...
    graphs                 | advantages |           | update 1 |           | update 2 | ...

An update begins with its batch: the samples that have the indices, or a draw from a replay on the learner's GPU. The
batch is followed by loss, backward pass, gradient norm, optimizer step and `after_update`. The rollout and the indices
are copied to fixed addresses. If an algorithm overrides the method `batches`, its batches are copied to fixed addresses
instead of indices.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from accel_rl.algos.algorithm import Algorithm, Schedules
from accel_rl.algos.policy_gradient import PolicyGradient, Samples
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.data.rollout import Rollout
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.speed.capturable import backward_hook_of, hook_of
from accel_rl.speed.captures import Captures, Generators, Key
from accel_rl.speed.cuda_graph import CudaGraphs
from accel_rl.speed.fixed_addresses import FixedAddresses, kind_of

Update = Callable[[Any, Any], Mapping[str, Tensor | float]]
"""`Update` is a function (batch, algorithm) that makes one update, and returns the metrics."""
Draw = Callable[[Any, Any], Any]
"""`Draw` is a function (algorithm, x) that returns a batch."""
_Names = tuple[str, ...]


class CapturedUpdates:
    """One CUDA graph for each kind of rollout and batch. The kind consists of shapes, dtypes, and which parts are
    None."""

    def __init__(self, algo: Algorithm, update: Update, never: str = ""):
        """`never` is the reason why no update may be captured, or ""."""
        self._algo = algo
        self._update = update
        model, graphs = algo.agent.model, CudaGraphs(algo.device)
        never = never or hook_of(model) or backward_hook_of(model) or ""
        self.advantages = Captures(algo, graphs, "advantages", never)
        self.updates = Captures(algo, graphs, "updates", never)
        self._samples = FixedAddresses()  # Inputs of `advantages`: samples of rollouts
        self._fixed: Samples | None = None  # The newest samples at fixed addresses
        self._inputs = FixedAddresses()  # Inputs of `updates`: indices of samples, or batches
        # Sums of metrics, to which graphs add, and the number of updates in each sum, by the names of the metrics
        self._sums: dict[_Names, Tensor] = {}
        self._counts: Counter[_Names] = Counter()

    def ingest(self, rollout: Rollout) -> None:
        algo, is_plain = self._algo, type(self._algo).ingest is PolicyGradient.ingest
        is_refused = self.advantages.why or self.updates.why
        if isinstance(algo, PolicyGradient) and algo.samples is not None and is_plain and not is_refused:
            last, samples = algo.samples, algo.prepare(rollout)
            # A graph writes advantages and targets to the memory of those of the last rollout.
            samples.advantage, samples.target = last.advantage, last.target
            (key,) = self.advantages.keys([id(algo.samples) if self._fix(algo, samples) else None])
            self.advantages.run(key, lambda: algo.ingest(rollout), _store_advantages)
        else:
            algo.ingest(rollout)

    def phase(self) -> Iterator[None]:
        """Yield after each update, without synchronizing with the GPU. `metrics` returns the updates' metrics."""
        algo, batches = self._algo, type(self._algo).batches
        if self.updates.why:
            self._samples = FixedAddresses()  # Free the memory of the rollouts that were copied for graphs.
        elif isinstance(algo, PolicyGradient) and batches is PolicyGradient.batches:
            yield from self._minibatches(algo)
            return
        elif isinstance(algo, ReplayAlgorithm) and batches is ReplayAlgorithm.batches and algo.replay.is_capturable:
            yield from self._draws(algo)
            return
        for batch in algo.batches():
            (key,) = self.updates.keys([kind := self._kind_of(batch)])
            self._make(key, lambda algo, x: x, kind, batch)
            yield

    def _minibatches(self, algo: PolicyGradient) -> Iterator[None]:
        """Make all updates of a phase. The ranks exchange the kinds of these updates in one call."""
        is_fixed = algo.samples is None or self._fix(algo, algo.samples)
        indices = list(algo.minibatches())
        kinds = [self._kind_of((id(algo.samples), index)) if is_fixed else None for index in indices]
        for index, kind, key in zip(indices, kinds, self.updates.keys(kinds) if kinds else [], strict=True):
            if algo.stopped:
                break
            self._make(key, lambda algo, x: algo.batch(x), kind, index)
            yield

    def _draws(self, algo: ReplayAlgorithm) -> Iterator[None]:
        """Make the updates of a phase on batches from the replay. The replay's key changes only between phases, so the
        ranks exchange the kind of the updates once per phase, unless a subclass overrides `phase`."""
        is_constant, key = type(algo).phase is ReplayAlgorithm.phase, None
        for update, _ in enumerate(algo.phase()):
            if not (update and is_constant):
                (key,) = self.updates.keys([algo.replay.key], limited=False)
            self._make(key, lambda algo, _: algo.draw(), generators=[algo.replay.generator])
            yield

    def metrics(self) -> list[UpdateMetrics]:
        """Metrics of the updates since the last call."""
        result = [UpdateMetrics(names, self._sums[names].clone(), n) for names, n in self._counts.items()]
        for names in self._counts:
            self._sums[names].zero_()
        self._counts.clear()
        return result

    def close(self) -> None:
        """Free the graphs, before the process group is destroyed."""
        self.advantages.close()
        self.updates.close()

    def _kind_of(self, batch: Any) -> Hashable | None:
        return kind_of(batch, self._algo.device.type)

    def _fix(self, algo: PolicyGradient, samples: Samples) -> bool:
        """Copy the samples of a rollout to fixed addresses, unless they are already there. Return False if the samples
        cannot be copied."""
        if samples is not self._fixed and (kind := self._kind_of(samples)) is not None:
            algo.samples = self._fixed = self._samples.load(kind, samples)
        return algo.samples is self._fixed

    def _make(
        self, key: Key | None, draw: Draw, kind: Hashable = None, x: Any = None, generators: Generators = ()
    ) -> None:
        """Make one update on the batch draw(algo, x). `kind` is the kind of x. `draw` may use the random
        `generators`."""
        fixed: list[Any] = []
        names = self.updates.run(
            key, lambda: self._update_from(self._algo, draw(self._algo, x), torch.zeros_like),
            lambda algo: self._update_from(algo, draw(algo, fixed[0])),
            lambda: fixed.append(self._inputs.load(kind, x)), generators,
        )  # fmt: skip
        self._counts[names] += 1

    def _update_from(self, algo: Any, batch: Any, allocate: Callable[[Tensor], Tensor] | None = None) -> _Names:
        """Make an update, add the metrics of the update to the sums, and return the names of the metrics. Sums are not
        allocated during a capture, because all graphs share the memory of a capture."""
        metrics = UpdateMetrics.of(self._update(batch, algo))
        if metrics.names not in self._sums:
            if allocate is None:
                raise RuntimeError("its metrics have other names than those of the first updates")
            self._sums[metrics.names] = allocate(metrics.sums)
        self._sums[metrics.names].add_(metrics.sums)
        return metrics.names


def _store_advantages(algo: PolicyGradient) -> None:
    """Compute advantages and value targets, and write them over those of the last rollout."""
    samples = algo.samples
    assert samples is not None
    advantage, target = algo.estimate(samples)
    samples.advantage.copy_(advantage)
    samples.target.copy_(target)


class ScheduledTensors(Schedules):
    """The values of schedules are scalar tensors [] on a device. `progress`, `env_steps` and `counted` are Python
    numbers."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._values: dict[str, float] = {}

    def set(self, values: Mapping[str, float]) -> None:
        """Set the values of schedules. Does not synchronize with the device."""
        for name, value in values.items():
            if name not in self._values:
                setattr(self, name, torch.full((), value, device=self._device))
            elif value != self._values[name]:
                getattr(self, name).fill_(value)
        self._values.update(values)
