"""Daley & Amato 2021, Tables 1 to 3: concurrent training and synchronized execution, alone and together.

The 14 variants are settings of one program: 1, 2, 4 or 8 samplers of one environment each. Inference serves them in
order of arrival or (synchronized) all in one batch. Learning alternates with sampling or (concurrent) runs in parallel.

    training       env steps/s of whole training: sampling, inference, C / F minibatches each C steps
    sampling_only  env steps/s without learning
    learning_only  env steps/s that learning alone would keep up with, F env steps an update
    bound          alternating: 1 / (1/sampling_only + 1/learning_only); concurrent: min(sampling_only, learning_only)

It also prints the time of each stage: stepping (workers), inference and waiting (sampler), learning. The share of
stages is `training` over the same bound, computed from the times that sampling and learning took within training. The
paper's hours are for 50 M steps on a GTX 1080 and 8 threads of an i7-7700K.

    python -m benchmarks.concurrent --json OUT [--network a3c] [--samplers 1 2 4 8] [--repeats 5]
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from accel_rl.system.errors import ConfigError
from accel_rl.system.process import before_torch

before_torch()

import torch  # noqa: E402

from accel_rl.algos.dqn import DQNConfig  # noqa: E402
from accel_rl.config.resolved import Resolved, resolve  # noqa: E402
from accel_rl.config.train import default_config  # noqa: E402
from accel_rl.runners.concurrent import Concurrent  # noqa: E402
from accel_rl.runners.plan import RankPlan  # noqa: E402
from accel_rl.runners.run_folder import RunFolder  # noqa: E402
from accel_rl.runners.trainer import Trainer  # noqa: E402
from accel_rl.samplers.workers.pool import WorkerPool  # noqa: E402
from accel_rl.system import hardware  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians, ratio  # noqa: E402
from benchmarks.program import program  # noqa: E402

PAPER_HOURS = {  # Table 1: (samplers, concurrent, synchronized)
    (1, False, False): 25.08, (1, True, False): 20.64,
    (2, False, False): 19.10, (2, True, False): 14.00, (2, False, True): 19.32, (2, True, True): 14.72,
    (4, False, False): 16.84, (4, True, False): 12.14, (4, False, True): 15.74, (4, True, True): 11.08,
    (8, False, False): 16.92, (8, True, False): 11.68, (8, False, True): 14.60, (8, True, True): 9.02,
}  # fmt: skip
STEPS = 50_000_000  # of the paper's hours
STAGES = ("stepping", "inference", "waiting", "sampling", "learning")


@dataclass(frozen=True)
class Options:
    game: str = "pong"
    """Atari game (section 5.1: Pong)."""
    backend: str = "auto"
    """Emulator: auto, ale or emulator."""
    network: Literal["a3c", "dqn", "nature"] = "nature"
    """nature is the paper's; a3c is smaller."""
    samplers: tuple[int, ...] = (1, 2, 4, 8)
    """W, numbers of worker processes with one environment each."""
    period: Count = 400
    """C, env steps between synchronizations (Table 5: 10,000; the rate hardly depends on it)."""
    train_every: Count = 4
    """F, env steps per update (Table 5: 4)."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seconds: float = 4.0
    """Minimum length of one measurement; whole periods are measured."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        if not self.samplers or min(self.samplers) < 1:
            raise ConfigError(f"--samplers {list(self.samplers)}: each must be at least 1")
        if min(self.period, self.train_every, self.repeats) < 1 or not self.seconds > 0:
            raise ConfigError("--period, --train-every, --repeats: at least 1; --seconds: above 0")
        for variant in variants(self.samplers):
            variant.config(self).check()


@dataclass(frozen=True)
class Variant:
    """One of the 14 variants."""

    samplers: int
    concurrent: bool
    synchronized: bool

    @property
    def name(self) -> str:
        kind = {(False, False): "standard", (True, False): "concurrent", (False, True): "synchronized"}
        return f"{self.samplers} {kind.get((self.concurrent, self.synchronized), 'both')}"

    def config(self, o: Options) -> Resolved:
        base, batch = default_config("dqn"), 32
        assert isinstance(base.algo, DQNConfig)
        algo = replace(
            base.algo,
            replay=replace(base.algo.replay, size=5_000, start=500),
            batch_size=batch, intensity=batch / o.train_every, target_interval=o.period, network=o.network,
            optimizer="rmsprop-centered", optimizer_eps=0.01, epsilon=0.1, epsilon_final=0.1,
        )  # fmt: skip
        config = replace(
            base,
            env=replace(base.env, game=o.game, frame="84x84", backend=o.backend),
            algo=algo,
            sampler=replace(
                base.sampler, envs=self.samplers, workers=self.samplers, groups=1, horizon=None,
                inference_per_worker=not self.synchronized,
            ),
            evaluation=replace(base.evaluation, interval=0),
            schedule="concurrent" if self.concurrent else "lockstep",
            device=o.device,
            env_steps=10**9,
        )  # fmt: skip
        return resolve(config)


def variants(samplers: tuple[int, ...]) -> list[Variant]:
    """Return all variants. With one sampler there is nothing to synchronize."""
    kinds = [(c, s) for s in (False, True) for c in (False, True)]
    return [Variant(W, c, s) for W in samplers for c, s in kinds if W > 1 or not s]


class Clock:
    """Counts the seconds spent in a method of an object."""

    def __init__(self, owner: Any, method: str):
        self.seconds, call = 0.0, getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        setattr(owner, method, timed)


class Measured:
    """One variant, whose training is measured repeatedly."""

    def __init__(self, variant: Variant, o: Options, folder: Path, cores: set[int]):
        self.o, self._all = o, cores
        os.sched_setaffinity(0, cores)
        config = variant.config(o)
        self.trainer = Trainer(
            config, RankPlan.resolve(config), RunFolder.create(folder / variant.name.replace(" ", "-"), config)
        )
        self.sampler, self.schedule = self.trainer.sampler, self.trainer.schedule
        self.learner = self.trainer.learner
        while not self.learner.updates:  # random actions and the first slow updates are not measured
            self.schedule.cycle(10**9)
        self.clocks = {
            "inference": Clock(self.sampler.server, "serve"),
            "waiting": Clock(self.sampler.engine, "wait"),
            "sampling": Clock(self.sampler, "collect"),
            "learning": Clock(self.learner, "update"),
        }
        self.stages: list[dict[str, float]] = []  # microseconds an env step, of each measurement

    def _settle(self) -> None:
        """Restore affinity and threads, which other variants have changed."""
        placement = self.trainer.plan.placement
        os.sched_setaffinity(0, placement.server_cores)
        torch.set_num_threads(placement.torch_threads)

    def _times(self) -> dict[str, float]:
        pool = self.sampler.engine
        assert isinstance(pool, WorkerPool)
        return {"stepping": sum(pool.env_seconds()), **{name: c.seconds for name, c in self.clocks.items()}}

    def training(self) -> float:
        """Measure whole training; returns env steps/s."""
        self._settle()
        before, n, begin = self._times(), 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < self.o.seconds:
            n += self.schedule.cycle(10**9)[0]
        after = self._times()
        self.stages.append({name: (after[name] - before[name]) / n * 1e6 for name in STAGES})
        return n / took

    def sampling(self) -> float:
        self._settle()
        agent = self.schedule.behaviour if isinstance(self.schedule, Concurrent) else self.learner.algo.agent
        n, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < self.o.seconds / 4:
            rollout = self.sampler.collect(agent)
            n += int(rollout.valid.sum())
        return n / took

    def learning(self) -> float:
        """Measure learning alone, in the trainer's thread if there is one; returns env steps/s."""
        self._settle()
        if isinstance(self.schedule, Concurrent):
            return self.schedule.thread.submit(self._learn).result()
        return self._learn()

    def _learn(self) -> float:
        algo: Any = self.learner.algo
        n, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < self.o.seconds / 2:
            algo.owe(self.o.period)
            for batch in algo.batches():
                self.learner.update(batch)
                n += self.o.train_every
        return n / took

    def close(self) -> None:
        self.schedule.close()
        self.sampler.close()
        os.sched_setaffinity(0, self._all)


def measure(o: Options) -> dict[str, Any]:
    cores, which = set(hardware.allowed_cores()), variants(o.samplers)
    bar = Bar(3 * len(which) * o.repeats)
    with contextlib.ExitStack() as stack:
        stack.callback(bar.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        built: dict[str, Measured] = {}
        for variant in which:
            built[variant.name] = Measured(variant, o, folder, cores)
            stack.callback(built[variant.name].close)
        parts: dict[str, Callable[[], float]] = {}
        for name, m in built.items():
            parts |= {
                f"{name} training": m.training,
                f"{name} sampling_only": m.sampling,
                f"{name} learning_only": m.learning,
            }
        found = interleave(parts, o.repeats, bar)
    first = found[f"{which[0].name} training"]
    results = []
    for variant in which:
        rates = {k: found[f"{variant.name} {k}"] for k in ("training", "sampling_only", "learning_only")}
        pairs = list(zip(rates["sampling_only"], rates["learning_only"], strict=True))
        bounds = [min(s, t) if variant.concurrent else 1 / (1 / s + 1 / t) for s, t in pairs]
        stages = built[variant.name].stages
        whole = max if variant.concurrent else sum
        of_stages = [whole((s["sampling"], s["learning"])) for s in stages]
        results.append(
            asdict(variant)
            | {
                "name": variant.name,
                "measurements": rates,
                "median": medians(rates | {"bound": bounds}),
                "stages_us": medians({name: [s[name] for s in stages] for name in STAGES}),
                "share_of_bound": ratio(rates["training"], bounds),
                "share_of_stages": ratio(rates["training"], [1e6 / us for us in of_stages]),
                "speedup": ratio(rates["training"], first),
            }
        )
    return {"results": results}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Format Tables 1 and 3 next to the paper's, with the stages. Ratios are medians of the ratios of each turn."""
    head = f"{'W':>2} {'variant':13}{'steps/s':>9}{'50 M, h':>9}{'speedup':>9}{'paper':>7}"
    head += f"{'of bound':>10}{'of stages':>11}"
    lines = [head + "   us/step: " + "  ".join(f"{s:>8}" for s in STAGES)]
    for r in result["results"]:
        hours = PAPER_HOURS.get((r["samplers"], r["concurrent"], r["synchronized"]))
        paper = f"{PAPER_HOURS[1, False, False] / hours:.2f}" if hours else "-"
        rate, us = r["median"]["training"], r["stages_us"]
        lines.append(
            f"{r['samplers']:>2} {r['name'].split()[1]:13}{rate:>9,.0f}{STEPS / rate / 3600:>9.2f}"
            f"{r['speedup']['median_by_turn']:>9.2f}{paper:>7}{r['share_of_bound']['median_by_turn']:>10.2f}"
            f"{r['share_of_stages']['median_by_turn']:>11.2f}            "
            + "  ".join(f"{us[s]:>8,.0f}" for s in STAGES)
        )
    lines.append("stepping: sum over all samplers; with more samplers than cores it includes their waits for a core")
    return lines


def main(argv: list[str]) -> int:
    return program("concurrent", __doc__, Options, argv, Options.check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
