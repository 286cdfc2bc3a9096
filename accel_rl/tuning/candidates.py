"""Candidates are placements of a run that leave the algorithm unchanged. Their speed is predicted from the times of the
run's parts, which are measured separately.

    workers share the cores with inference      time of a step = emulation + inference
    one server, alternating groups              time of a step = max(inference, emulation + inference / cores)
    a GPU infers, alternating groups            time of a step = max(inference, emulation)
    training                                    time of a step = sampling + updates
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from accel_rl.config.flags import with_setting
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.runners.plan import RankPlan
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError

Changes = dict[str, Any]
PLACEMENT = (
    "sampler.workers", "sampler.groups", "sampler.inference_per_worker", "sampler.engine", "torch_threads",
)  # fmt: skip
"""Settings that may be changed. They do not change the distribution of a run's results, although rounding, and the
random numbers of a seed, may differ."""
GROUPS = (1, 2, 4)


@dataclass(frozen=True)
class Timing:
    """A `Timing` maps numbers of threads to the measured duration of an operation, in seconds. Durations for other
    numbers of threads are estimated from a serial and a parallel part (Amdahl's law)."""

    seconds: Mapping[int, float]

    def with_threads(self, threads: int) -> float:
        if threads in self.seconds:
            return self.seconds[threads]
        few, many = min(self.seconds), max(self.seconds)
        if self.seconds[many] >= self.seconds[few]:
            return min(self.seconds.values())
        parallel = (self.seconds[few] - self.seconds[many]) / (1 / few - 1 / many)
        return max(self.seconds[few] - parallel / few, 0.0) + parallel / threads


@dataclass(frozen=True)
class Parts:
    """`Parts` has the measured times of a run's parts.

    `emulation` is the time of one core, in seconds, per env step. `inference` maps the number of observations in a call
    to the duration of the call, in seconds. `updates` is the time of updates, in seconds, per env step. Unknown parts
    count as zero, so that the prediction is an upper bound of the speed.
    """

    emulation: float
    inference: Mapping[int, Timing] = field(default_factory=dict)
    updates: Timing | None = None

    def acting(self, n: int, threads: int) -> float:
        """Return the time of inference, in seconds per observation, in a batch of `n` observations."""
        return self.inference[n].with_threads(threads) / n if n in self.inference else 0.0


@dataclass(frozen=True)
class Prediction:
    """A `Prediction` has the predicted times of the parts, in seconds per env step. Emulation and inference may
    overlap."""

    emulation: float
    inference: float
    updates: float
    sampling: float

    @property
    def rate(self) -> float:
        """Return the predicted env steps/s of training."""
        return 1 / max(self.sampling + self.updates, 1e-12)

    @property
    def limit(self) -> str:
        """Return the name of the part that takes the most time."""
        times = {"emulation": self.emulation, "inference": self.inference, "updates": self.updates}
        return max(times, key=lambda name: times[name])


def predict(plan: RankPlan, parts: Parts) -> Prediction:
    """Predict the time, in seconds per env step, of a run with the given plan."""
    s, threads = plan.sampler, plan.placement.torch_threads
    groups, n = s.grouping.groups, s.grouping.B // s.grouping.groups
    updates = parts.updates.with_threads(threads) if parts.updates else 0.0
    if s.on_device:  # Emulation on a GPU is not measured separately, so the whole run is always measured.
        return Prediction(0.0, 0.0, updates, 0.0)
    shared = max(Counter(s.worker_cores).values()) if s.has_workers and None not in s.worker_cores else 1
    emulation = parts.emulation * shared / (s.grouping.workers if s.has_workers else 1)
    inference = parts.acting(n, s.act_threads)
    if s.threaded_inference:
        inference /= groups
        sampling = emulation + inference
    elif s.in_process or groups == 1:
        sampling = emulation + inference
    elif s.shares_cores:
        cores = max(1, len(plan.placement.server_cores))
        sampling = max(inference, emulation + inference * min(s.act_threads, cores) / cores)
    else:
        sampling = max(inference, emulation)
    return Prediction(emulation, inference, updates, sampling)


def with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    for name, value in changes.items():
        config = with_setting(config, name, value)
    return config


def options_text(changes: Mapping[str, Any]) -> str:
    """Return the changes as command-line options, such as "--workers 2 --groups 1", or "the defaults" if nothing
    changes."""
    words = []
    for name, value in changes.items():
        flag = name.rpartition(".")[2].replace("_", "-")
        words.append(f"--{flag}" if value is True else f"--{flag} {value}")
    return " ".join(words) or "the defaults"


def thread_counts(cores: int) -> list[int]:
    """Return the numbers of threads per operation that are measured."""
    return sorted({1, max(1, cores // 2), cores})


def candidates(config: TrainConfig, given: Mapping[str, Any], on_gpu: bool) -> Iterator[tuple[Changes, RankPlan]]:
    """Yield pairs of changes of the placement and the plan with these changes. Settings that the user has given
    (`given`) are not changed."""
    cores = hardware.usable_cores(config.sampler.cores)
    threads = [None] if on_gpu else [None, *thread_counts(len(cores))]
    for placement in _placements(config.sampler.envs, len(cores), on_gpu):
        for n in threads:
            changes = {**placement, **({"torch_threads": n} if n else {})}
            if changes.keys() & given.keys():
                continue
            try:
                yield changes, RankPlan.resolve(resolve(with_changes(config, changes)))
            except ConfigError:  # For example, the environments do not divide by groups x workers.
                continue


def _placements(B: int, cores: int, on_gpu: bool) -> Iterator[Changes]:
    yield {}
    yield {"sampler.engine": "in-process", "sampler.groups": 1}
    if on_gpu:
        yield {"sampler.engine": "device"}
    for workers in range(1, cores + 1):
        if B % workers or workers < cores // 2:
            continue
        for groups in GROUPS:
            yield {"sampler.workers": workers, "sampler.groups": groups}
        yield {"sampler.workers": workers, "sampler.inference_per_worker": True}


def best_of_each_kind(
    predicted: list[tuple[Changes, RankPlan, Prediction]],
) -> list[tuple[Changes, RankPlan, Prediction]]:
    """Return the fastest predicted candidate of each kind of sampler, the fastest kind first."""
    best: dict[Any, tuple[Changes, RankPlan, Prediction]] = {}
    for candidate in sorted(predicted, key=lambda c: -c[2].rate):
        s = candidate[1].sampler
        kind = (s.engine, s.grouping.groups, s.threaded_inference, s.grouping.workers > 1)
        best.setdefault(kind, candidate)
    return list(best.values())
