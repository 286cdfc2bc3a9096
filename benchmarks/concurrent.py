"""Daley & Amato 2021, Tables 1 to 3: concurrent training and synchronized execution, alone and together.

The 14 variants are settings of one program: 1, 2, 4 or 8 samplers of one environment each. Inference serves them in
order of arrival or (synchronized) all in one batch. Learning alternates with sampling or (concurrent) runs in parallel.

    training       env steps/s of whole training: sampling, inference, C / 4 minibatches each C steps
    sampling_only  env steps/s without learning
    learning_only  env steps/s that learning alone would keep up with
    bound          alternating: 1 / (1/sampling_only + 1/learning_only); concurrent: min(sampling_only, learning_only)

All take turns. The runs are those of `experiments.daley:speed_test` with a smaller replay and period.

    python -m benchmarks.concurrent --json OUT [--network a3c] [--samplers 1 2 4 8] [--repeats 5]
"""

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from accel_rl.config.train import TrainConfig
from accel_rl.papers.daley import FOURTEEN, THREADS, VARIANTS, speed_test
from accel_rl.papers.published import published_by
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError
from benchmarks.harness import program
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.table import table
from benchmarks.harness.training import FOREVER, Training
from benchmarks.harness.turns import Measure, Measurements, ratio

STEPS = 50_000_000
COLUMNS = ("samplers", "variant", "env steps/s", "hours for 50 M", "speed-up", "the paper's speed-up")


@dataclass(frozen=True)
class Options(program.Options):
    game: str = "pong"
    """Atari game (section 5.1: Pong)."""
    network: Literal["a3c", "dqn", "nature"] = "nature"
    """nature is the paper's; a3c is smaller."""
    samplers: tuple[int, ...] = THREADS
    """Numbers of worker processes with one environment each."""
    period: Count = 400
    """C, env steps between synchronizations (Table 5: 10,000; the rate hardly depends on it)."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seconds: float = 4.0
    """Minimum length of one measurement; whole periods are measured."""

    TINY: ClassVar[dict[str, Any]] = {"samplers": (1, 2), "network": "a3c", "period": 40}

    def check(self) -> None:
        """Raise ConfigError, one line, for impossible options."""
        super().check()
        for n in self.samplers:
            if n not in THREADS:
                raise ConfigError(f"--samplers {n}: must be of {', '.join(map(str, THREADS))}")
        self.at_least(1, "period")
        for n, variant in self.variants():
            self.config(n, variant).check()

    def variants(self) -> list[tuple[int, str]]:
        """Return (number of samplers, variant) of all that are measured."""
        return [(n, variant) for n, variant in FOURTEEN if n in self.samplers]

    def config(self, samplers: int, variant: str, start: int = 500) -> TrainConfig:
        """Return the settings of a run. start: env steps before learning."""
        config = speed_test(samplers, variant)
        algo: Any = config.algo
        memory = replace(algo.replay, size=10 * start, start=start)
        algo = replace(algo, replay=memory, target_interval=self.period, network=self.network)
        env = replace(config.env, game=self.game)
        return replace(config, env=env, algo=algo, device=self.device, env_steps=FOREVER)


def paper_row(samplers: int, variant: str, rate: float, speedup: float) -> list[Any]:
    """Return a variant's row of COLUMNS. rate: env steps/s. speedup: over one sampler, standard."""
    paper = published_by("daley")["table_3"]["threads"][str(samplers)][VARIANTS.index(variant)]
    return [samplers, variant, rate, STEPS / rate / 3600, speedup, paper]


def case(o: Options, stack: ExitStack) -> Case:
    """Build the training of all variants."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    parts: dict[str, Measure] = {}
    for n, variant in o.variants():
        training = Training(o.config(n, variant), folder / f"{n}-{variant}")
        stack.callback(training.close)
        parts[f"{n} {variant}, training"] = partial(training.training, o.seconds)
        parts[f"{n} {variant}, sampling_only"] = partial(training.sampling, o.seconds / 4)
        parts[f"{n} {variant}, learning_only"] = partial(training.learning, o.seconds / 2)

    def bounds(found: Measurements) -> Measurements:
        bound = {}
        for n, variant in o.variants():
            name, in_parallel = f"{n} {variant}", variant in ("concurrent", "both")
            pairs = zip(found[f"{name}, sampling_only"], found[f"{name}, learning_only"], strict=True)
            bound[f"{name}, bound"] = [min(s, t) if in_parallel else 1 / (1 / s + 1 / t) for s, t in pairs]
        return bound

    def figures(found: Measurements) -> dict[str, Any]:
        names = [f"{n} {variant}" for n, variant in o.variants()]
        training = {name: found[f"{name}, training"] for name in names}
        share = {name: ratio(training[name], found[f"{name}, bound"]) for name in names}
        return {"share_of_bound": share, "speedup": {n: ratio(training[n], training[names[0]]) for n in names}}

    return Case({"game": o.game}, parts, compared=False, derive=bounds, figures=figures)


def cases(o: Options) -> list[Build]:
    """Return all variants as one case."""
    return [partial(case, o)]


def lines(o: Options, result: dict[str, Any]) -> list[str]:
    """Return Tables 1 and 3 beside the paper's. Ratios are medians of the ratios of each turn."""
    rows = []
    for r in result["results"]:
        for n, variant in o.variants():
            name = f"{n} {variant}"
            row = paper_row(n, variant, r["median"][f"{name}, training"], r["speedup"][name]["median_by_turn"])
            rows.append([*row, r["share_of_bound"][name]["median_by_turn"]])
    return ["", *table([*COLUMNS, "of the bound"], rows)]


main = Benchmark("concurrent", __doc__, Options, cases, lines=lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
