"""Training throughput, compared with Stable-Baselines3, CleanRL and its own parts, in one run.

    training           env steps/s of whole training: sampling, inference, updates; no evaluation
    training_bfloat16  the same in bfloat16, if the CPU multiplies bfloat16 in hardware; everything else is float32
    environment_only   env steps/s of the emulator with preprocessing, a process on each core
    inference_only     env steps/s of inference at the batch of one group
    update_only        samples/s of updates; each sample is used `uses` times
    bound              1 / (1/environment_only + 1/inference_only + uses/update_only): the parts in sequence

`ppo` has CleanRL's ppo_atari settings (8 environments x 128, 4 epochs of 4 minibatches). `a2c` has SB3's (16 x 5).
`dqn` and `c51` have CleanRL's batch of 32 every 4 steps (8 environments x 4, 8 updates). All sides use the network of
Mnih et al. 2015 and pictures of 84x84. SB3 runs in a separate process. The measurements take turns.

    python -m benchmarks.train --json OUT [--algorithms dqn c51] [--cleanrl ppo_atari_envpool.py dqn_atari.py ...]
"""

import contextlib
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.process import before_torch

before_torch()

import torch  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig  # noqa: E402
from accel_rl.config.resolved import resolve  # noqa: E402
from accel_rl.config.train import TrainConfig, default_config  # noqa: E402
from accel_rl.models.precision import Precision, autocast_for, multiplies_bfloat16  # noqa: E402
from accel_rl.runners.plan import RankPlan  # noqa: E402
from accel_rl.runners.run_folder import RunFolder  # noqa: E402
from accel_rl.runners.trainer import Trainer  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from benchmarks import breakdown, sb3  # noqa: E402
from benchmarks.bare import Bare  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians, ratio  # noqa: E402
from benchmarks.ours import cores_of  # noqa: E402
from benchmarks.peer_envs import camel  # noqa: E402
from benchmarks.program import program  # noqa: E402
from benchmarks.sb3 import DQN, SAMPLING  # noqa: E402

PPO = {"learning_rate": 2.5e-4, "clip": 0.1, "value_coefficient": 0.25, "minibatch": 256, "network": "nature"}
A2C = {"value_coefficient": 0.25, "network": "nature", "learning_rate_scaling": "none"}
Q_LEARNING = {"batch_size": DQN["batch_size"], "intensity": DQN["intensity"], "learning_rate": DQN["learning_rate"],
              "optimizer": "adam", "network": "nature", "epsilon_steps": 1, "target_interval": 1_000}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {"ppo": PPO, "a2c": A2C, "dqn": Q_LEARNING, "c51": Q_LEARNING}


CONVOLUTIONS = ("conv_u8", "conv_f32_winograd", "conv_bf16_amx")


@dataclass(frozen=True)
class Options:
    game: str = "breakout"
    """Atari game."""
    algorithms: tuple[str, ...] = ("ppo", "a2c")
    """Algorithms to measure: ppo, a2c, dqn, c51."""
    backend: str = "auto"
    """Emulator of accel_rl: auto, ale or emulator."""
    precision: Precision = "float32"
    """Precision of training and of its parts; SB3 and CleanRL use float32. With float32, training_bfloat16 is measured
    as well."""
    seconds: float = 10.0
    """Minimum length of one measurement; whole iterations are measured."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    sb3: bool = True
    """Also measure Stable-Baselines3."""
    cleanrl: tuple[str, ...] = ()
    """CleanRL scripts to run once a turn (ppo_atari_envpool.py, dqn_atari.py, c51_atari.py)."""
    json: str = ""
    """Also write everything to this file."""


class Ours:
    """Training by accel_rl, cycle by cycle (a rollout and its updates)."""

    name = "accel_rl"

    def __init__(
        self, algorithm: str, game: str, folder: Path, backend: str = "auto", precision: Precision = "float32"
    ):
        base = default_config(algorithm)
        algo: Any = replace(base.algo, **SETTINGS[algorithm])
        if isinstance(algo, ReplayAlgorithmConfig):
            algo = replace(algo, replay=replace(algo.replay, size=DQN["size"], start=DQN["start"]))
        given: TrainConfig = replace(
            base,
            env=replace(base.env, game=game, frame="84x84", backend=backend),
            algo=algo,
            sampler=replace(base.sampler, **SAMPLING[algorithm]),
            evaluation=replace(base.evaluation, interval=0),
            env_steps=10**9,
            precision=precision,
        )
        self.config = config = resolve(given)
        self.trainer = Trainer(config, RankPlan.resolve(config), RunFolder.create(folder / algorithm, config))
        self.uses = float(getattr(algo, "epochs", getattr(algo, "intensity", 1)))
        self.trainer.sampler.start()
        while not self.trainer.learner.updates:  # past the random play of a replay's start
            self.trainer.schedule.cycle()
        self._rollout = self.trainer.sampler.collect(self.trainer.learner.algo.agent)

    def train(self, seconds: float) -> float:
        """Measure whole training; returns env steps/s."""
        return _rate(self.trainer.schedule.cycle, seconds, lambda done: done[0])

    def acting(self, seconds: float) -> float:
        agent, sampler = self.trainer.learner.algo.agent, self.trainer.sampler
        with autocast_for(self.config.precision, self.trainer.learner.algo.device):
            threads = breakdown.best_threads(sampler, agent, self.trainer.plan.placement.torch_threads, seconds / 10)
            rate, _ = breakdown.per_observation(sampler, agent, seconds, threads)
        torch.set_num_threads(self.trainer.plan.placement.torch_threads)
        return rate

    def update(self, seconds: float) -> float:
        """Measure repeated updates on one rollout; returns samples/s."""

        class Again:
            collect = staticmethod(lambda agent: self._rollout)
            check = staticmethod(lambda: None)

        schedule = self.trainer.schedule
        real, schedule.sampler = schedule.sampler, Again()  # type: ignore[assignment]
        try:
            return _rate(schedule.cycle, seconds, lambda done: done[0] * self.uses)
        finally:
            schedule.sampler = real

    def flops(self) -> float:
        """Count the FLOP of one sample's forward and backward pass."""
        algo = self.trainer.learner.algo
        algo.ingest(self._rollout)
        batch = next(iter(algo.batches()))
        # with torch's convolutions: the counter does not see compiled ones
        off = [patch(f"accel_rl.kernels.{name}.supports", lambda *_: False) for name in CONVOLUTIONS]
        with contextlib.ExitStack() as stack, FlopCounterMode(display=False) as counter:
            for change in off:
                stack.enter_context(change)
            algo.loss(batch).total.backward()
        return counter.get_total_flops() / len(batch.a_tm1 if hasattr(batch, "a_tm1") else batch.action)

    def close(self) -> None:
        self.trainer.sampler.close()


def _rate(cycle: Callable[[], Any], seconds: float, count: Callable[[Any], float]) -> float:
    n, begin = 0.0, time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        n += count(cycle())
    return n / took


def clean_rl(script: Path, algorithm: str, game: str, seconds: float) -> float:
    """Run a CleanRL script; returns the env steps/s that it prints last."""
    name = camel(game) + "-v5" if algorithm == "ppo" else f"{camel(game)}NoFrameskip-v4"
    steps = max(4 * 1024, int(300 * seconds) // 1024 * 1024)
    more = [] if algorithm == "ppo" else ["--learning-starts", "200", "--buffer-size", str(DQN["size"])]
    options = ["--env-id", name, "--total-timesteps", str(steps), *more]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script.absolute()), *options]
        alone = os.environ | {"CUDA_VISIBLE_DEVICES": ""}  # versions of the scripts name the option differently
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone)
    rates = re.findall(r"SPS: (\d+)", done.stdout)
    if done.returncode or not rates:
        raise ConfigError(f"--cleanrl {script}: {(done.stderr.strip().splitlines() or ['it printed no SPS'])[-1]}")
    return float(rates[-1])


def peak_flops(precision: Precision, n: int = 2048) -> float:
    """Measure FLOP/s of a large matrix product in the given precision, with the number of threads of training."""
    dtype, best = getattr(torch, precision), 0.0
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    for _ in range(8):
        begin = time.perf_counter()
        a @ b
        best = max(best, 2 * n**3 / (time.perf_counter() - begin))
    return best


def check(o: Options) -> None:
    for name in o.algorithms:
        if name not in SETTINGS:
            raise ConfigError(f"--algorithms {name}: must be of {', '.join(SETTINGS)}{nearest(name, list(SETTINGS))}")
    if o.repeats < 1 or not o.seconds > 0:
        raise ConfigError(f"--repeats {o.repeats} --seconds {o.seconds}: at least 1, and above 0")
    for script in o.cleanrl:
        if not Path(script).is_file():
            raise ConfigError(f"--cleanrl {script}: there is no such file")
    if o.sb3 and importlib.util.find_spec("stable_baselines3") is None:
        raise ConfigError("stable-baselines3 is not installed: pip install 'accel_rl[bench]', or --no-sb3")


def scripts_for(o: Options, algorithm: str) -> list[Path]:
    """Return the CleanRL scripts of an algorithm, recognised by their names."""
    return [Path(s) for s in o.cleanrl if Path(s).name.startswith(algorithm)]


def measures_bfloat16(o: Options) -> bool:
    return o.precision == "float32" and multiplies_bfloat16()


def measure(o: Options, algorithm: str, folder: Path, bar: Bar) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        ours = Ours(algorithm, o.game, folder, o.backend, o.precision)
        stack.callback(ours.close)
        bare = Bare(asdict(ours.config.env), cores_of(ours.trainer.plan.placement))
        stack.callback(bare.close)
        in_16: dict[str, Callable[[], float]] = {}
        if measures_bfloat16(o):
            narrow = Ours(algorithm, o.game, folder / "bfloat16", o.backend, "bfloat16")
            stack.callback(narrow.close)
            in_16["training_bfloat16"] = lambda: narrow.train(o.seconds)
        parts: dict[str, Callable[[], float]] = {
            "training": lambda: ours.train(o.seconds),
            **in_16,
            "environment_only": lambda: bare.measure(o.seconds / 4),
            "inference_only": lambda: ours.acting(o.seconds / 4),
            "update_only": lambda: ours.update(o.seconds / 2),
        }
        if o.sb3 and algorithm in sb3.ALGORITHMS:
            peer = sb3.StableBaselines(algorithm, o.game)
            stack.callback(peer.close)
            parts["SB3"] = lambda: peer.train(o.seconds)
        for script in scripts_for(o, algorithm):
            parts["CleanRL"] = lambda script=script: clean_rl(script, algorithm, o.game, o.seconds)  # type: ignore[misc]
        flops, peak = ours.flops(), peak_flops(o.precision)
        found = interleave(parts, o.repeats, bar, f"{algorithm} {o.game}: ")
    m = medians(found)
    alone = zip(found["environment_only"], found["inference_only"], found["update_only"], strict=True)
    bounds = [1 / (1 / e + 1 / i + ours.uses / u) for e, i, u in alone]
    return {
        "algorithm": algorithm,
        "game": o.game,
        "precision": o.precision,
        "uses": ours.uses,
        "measurements": found,
        "median": {**m, "bound": statistics.median(bounds)},
        "ratios": {"training/bound": ratio(found["training"], bounds)}
        | {f"{s}/{peer}": ratio(found[s], found[peer]) for peer in ("SB3", "CleanRL") if peer in found
           for s in ("training", "training_bfloat16") if s in found},
        "update": {"mflop_per_sample": flops / 1e6, "gflops": flops * m["update_only"] / 1e9, "peak_gflops": peak / 1e9,
                   "share_of_peak": flops * m["update_only"] / peak},
    }  # fmt: skip


def report(o: Options, result: dict[str, Any]) -> list[str]:
    return [line for r in result["results"] for line in lines_of(r)]


def lines_of(r: dict[str, Any]) -> list[str]:
    m, u = r["median"], r["update"]
    lines = [
        f"{r['algorithm']}, {r['game']}, {r['precision']}: {m['training']:,.0f} env steps/s of training"
        + (f"; in bfloat16: {m['training_bfloat16']:,.0f}" if "training_bfloat16" in m else ""),
        f"  environment only {m['environment_only']:,.0f}  inference only {m['inference_only']:,.0f}  update only "
        f"{m['update_only']:,.0f} samples/s, each used {r['uses']:g} times  bound {m['bound']:,.0f}",
        f"  an update runs at {u['gflops']:,.0f} GFLOP/s, {100 * u['share_of_peak']:.0f} % of a matrix product's "
        f"{u['peak_gflops']:,.0f} ({u['mflop_per_sample']:.1f} MFLOP a sample)",
    ]
    for name, x in r["ratios"].items():
        lines.append(f"  {name.replace('_', ' ')} {x['of_medians']:.2f}   turn by turn {x['median_by_turn']:.2f}, "
                     f"{x['least']:.2f} to {x['most']:.2f}")  # fmt: skip
    return lines


def run(o: Options) -> dict[str, Any]:
    parts = sum(
        4 + measures_bfloat16(o) + (o.sb3 and a in sb3.ALGORITHMS) + len(scripts_for(o, a)) for a in o.algorithms
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Bar(o.repeats * parts)) as bar:
        return {"results": [measure(o, a, Path(folder), bar) for a in o.algorithms]}


def main(argv: list[str]) -> int:
    return program("train", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
