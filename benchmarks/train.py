"""Compares the speed of training with that of Stable-Baselines3 and CleanRL, and with the speed of training's parts.

    | training           env steps/s of whole training: sampling, inference, updates; no evaluation
    | training_bfloat16  the same in bfloat16, if the CPU multiplies bfloat16 in hardware; everything else is float32
    | environment_only   env steps/s of the emulator with preprocessing, a process on each core
    | inference_only     env steps/s of inference at the batch of one group
    | update_only        samples/s of updates; each sample is used `uses` times
    | bound              1 / (1/environment_only + 1/inference_only + uses/update_only): the parts in sequence

`ppo` has the settings of CleanRL's ppo_atari (8 environments x 128 steps, 4 epochs of 4 minibatches). `a2c` has SB3's
settings (16 environments x 5 steps). `dqn` and `c51` train on a batch of 32 every 4 steps, as in CleanRL (8
environments x 4 steps, then 8 updates). All programs use the network of Mnih et al. 2015 and pictures of 84x84. SB3
(Stable-Baselines3) trains in a separate process. All programs and parts are measured in turns.

    | python -m benchmarks.train --json OUT [--algorithms dqn c51] [--cleanrl ppo_atari_envpool.py dqn_atari.py ...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch.utils.flop_counter import FlopCounterMode

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.machine.hardware import CPUINFO, cpu_flags
from accel_rl.models.precision import Precision
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.errors import ConfigError
from benchmarks.harness import program
from benchmarks.harness.bare import Bare
from benchmarks.harness.measured_training import FOREVER, rate
from benchmarks.harness.peer_envs import camel
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.sampling import Inference, cores_of
from benchmarks.harness.served import Served
from benchmarks.harness.training import Training
from benchmarks.harness.turns import Measure, Measurements, medians

BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}
"""Flags of a CPU that multiplies bfloat16 in hardware."""
SAMPLING = {
    "ppo": {"envs": 8, "horizon": 128},
    "a2c": {"envs": 16, "horizon": 5},
    "dqn": {"envs": 8, "horizon": 4},
    "c51": {"envs": 8, "horizon": 4},
}
IN_SB3 = ("ppo", "a2c", "dqn")
DQN = {"batch_size": 32, "learning_rate": 1e-4, "size": 10_000, "start": 1_000, "intensity": 8}
PPO = {"learning_rate": 2.5e-4, "clip": 0.1, "value_coefficient": 0.25, "minibatch": 256, "network": "nature"}
A2C = {"value_coefficient": 0.25, "network": "nature", "learning_rate_scaling": "none"}
Q_LEARNING = {"batch_size": DQN["batch_size"], "intensity": DQN["intensity"], "learning_rate": DQN["learning_rate"],
              "optimizer": "adam", "network": "nature", "epsilon_steps": 1, "target_interval": 1_000}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {"ppo": PPO, "a2c": A2C, "dqn": Q_LEARNING, "c51": Q_LEARNING}
CONVOLUTIONS = ("conv_u8", "conv_f32_winograd", "conv_bf16_amx")


@dataclass(frozen=True)
class Options(program.Options):
    game: str = "breakout"
    """Atari game."""
    algorithms: tuple[str, ...] = ("ppo", "a2c")
    """Algorithms that are measured: ppo, a2c, dqn, c51."""
    backend: str = "auto"
    """Emulator of accel_rl: auto, ale or emulator."""
    precision: Precision = "float32"
    """Precision of accel_rl's training and of its parts. SB3 and CleanRL use float32. With float32, training_bfloat16
    is also measured."""
    seconds: float = 10.0
    """Minimum length of one measurement in seconds; whole iterations are measured."""
    sb3: bool = True
    """Also measure Stable-Baselines3."""
    cleanrl: tuple[str, ...] = ()
    """CleanRL scripts that run once per turn (ppo_atari_envpool.py, dqn_atari.py, c51_atari.py)."""
    peer_python: str = sys.executable
    """Python interpreter that runs SB3 and CleanRL, such as that of another virtual environment."""

    TINY: ClassVar[dict[str, Any]] = {"algorithms": ("a2c",)}

    def check(self) -> None:
        super().check()
        self.one_of("algorithms", tuple(SETTINGS))
        for script in self.cleanrl:
            if not Path(script).is_file():
                raise ConfigError(f"--cleanrl {script}: there is no such file")
        for algorithm in self.algorithms:
            resolve(config_of(algorithm, self.game, self.backend, self.precision))
        if self.sb3 and set(self.algorithms) & set(IN_SB3):
            check_sb3(self.peer_python)


def check_sb3(python: str) -> None:
    """Raise ConfigError, with a message of one line, if the Python of --peer-python has no stable-baselines3."""
    finds = "import importlib.util, sys; sys.exit(importlib.util.find_spec('stable_baselines3') is None)"
    if not shutil.which(python):
        raise ConfigError(f"--peer-python {python}: there is no such program")
    if subprocess.run([python, "-c", finds]).returncode:
        raise ConfigError("stable-baselines3 is not installed: pip install 'accel_rl[bench]', or --no-sb3")


def config_of(algorithm: str, game: str, backend: str = "auto", precision: Precision = "float32") -> TrainConfig:
    """Return accel_rl's settings for an algorithm, with the hyperparameters of SB3 and CleanRL."""
    base = default_config(algorithm)
    algo: Any = replace(base.algo, **SETTINGS[algorithm])
    if isinstance(algo, ReplayAlgorithmConfig):
        algo = replace(algo, replay=replace(algo.replay, size=DQN["size"], start=DQN["start"]))
    return replace(
        base,
        env=replace(base.env, game=game, frame="84x84", backend=backend),
        algo=algo,
        sampler=replace(base.sampler, **SAMPLING[algorithm]),
        evaluation=replace(base.evaluation, interval=0),
        env_steps=FOREVER,
        precision=precision,
    )


def flops(training: Training) -> float:
    """Count the FLOP of one sample's forward and backward pass."""
    algo: Any = training.learner.algo
    algo.ingest(training.rollout)
    batch = next(iter(algo.batches()))
    with ExitStack() as stack:
        # Disable accel_rl's convolutions, because FlopCounterMode counts only those of torch.
        for name in CONVOLUTIONS:
            stack.enter_context(patch(f"accel_rl.kernels.{name}.supports", lambda *_: False))
        counter = stack.enter_context(FlopCounterMode(display=False))
        algo.loss(batch).total.backward()
    return counter.get_total_flops() / len(batch.a_tm1 if hasattr(batch, "a_tm1") else batch.action)


def peak_flops(precision: Precision, n: int = 2048) -> float:
    """Measure the maximum FLOP/s of large matrix products in the given precision."""
    a, b = (torch.randn(n, n).to(getattr(torch, precision)) for _ in range(2))

    def product() -> float:
        torch.mm(a, b)
        return 2 * n**3

    return max(rate(product, 0.0) for _ in range(8))


def sb3(o: Options, algorithm: str) -> Served:
    """Start SB3's training."""
    setup = {"algorithm": algorithm, "game": camel(o.game), "dqn": DQN, **SAMPLING[algorithm]}
    script = Path(__file__).parent / "harness" / "sb3_server.py"
    return Served("SB3", [o.peer_python, "-P", str(script), json.dumps(setup)])


def clean_rl(o: Options, script: Path, algorithm: str, seconds: float) -> float:
    """Run a CleanRL script, and return the env steps/s that the script prints last."""
    name = camel(o.game) + "-v5" if algorithm == "ppo" else f"{camel(o.game)}NoFrameskip-v4"
    steps = max(4 * 1024, int(300 * seconds) // 1024 * 1024)
    more = [] if algorithm == "ppo" else ["--learning-starts", "200", "--buffer-size", str(DQN["size"])]
    options = ["--env-id", name, "--total-timesteps", str(steps), *more]
    with tempfile.TemporaryDirectory() as folder:
        command = [o.peer_python, str(script.absolute()), *options]
        # The GPU is hidden, because CleanRL's scripts have different options for training on CPUs.
        no_gpu = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=no_gpu)
    rates = re.findall(r"SPS: (\d+)", done.stdout)
    if done.returncode or not rates:
        raise ConfigError(f"--cleanrl {script}: {(done.stderr.strip().splitlines() or ['it printed no SPS'])[-1]}")
    return float(rates[-1])


def case(o: Options, algorithm: str, stack: ExitStack) -> Case:
    """Build the measurements of an algorithm's training, of the parts of training, and of other libraries' training."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    config = config_of(algorithm, o.game, o.backend, o.precision)
    ours = Training(config, folder / algorithm)
    stack.callback(ours.close)
    uses = float(getattr(config.algo, "epochs", getattr(config.algo, "intensity", 1)))
    placement = ours.trainer.plan.placement
    inference = Inference(ours.sampler, ours.agent, placement.torch_threads, o.precision)
    bare = Bare(ours.config.env.to_dict(), cores_of(placement))
    stack.callback(bare.close)
    variants: dict[str, Measure] = {"training": ours.training}
    if o.precision == "float32" and BFLOAT16 & cpu_flags(CPUINFO):
        narrow = Training(config_of(algorithm, o.game, o.backend, "bfloat16"), folder / "bfloat16")
        stack.callback(narrow.close)
        variants["training_bfloat16"] = narrow.training
    variants |= {
        "environment_only": bare.measure,
        "inference_only": inference.rate,
        "update_only": lambda seconds: uses * ours.learning(seconds),
    }
    if o.sb3 and algorithm in IN_SB3:
        peer = sb3(o, algorithm)
        stack.callback(peer.close)
        variants["SB3"] = peer.measure
    for script in map(Path, o.cleanrl):
        if script.name.startswith(algorithm):
            variants["CleanRL"] = partial(clean_rl, o, script, algorithm)
    sample_flops, peak = flops(ours), peak_flops(o.precision)

    def bound(m: Measurements) -> Measurements:
        parts = zip(m["environment_only"], m["inference_only"], m["update_only"], strict=True)
        return {"bound": [1 / (1 / e + 1 / i + uses / u) for e, i, u in parts]}

    def figures(m: Measurements) -> dict[str, Any]:
        reached = sample_flops * medians(m)["update_only"]
        update = {"mflop_per_sample": sample_flops / 1e6, "gflops": reached / 1e9, "peak_gflops": peak / 1e9}
        return {"uses": uses, "update": update | {"share_of_peak": reached / peak}}

    labels = {"algorithm": algorithm, "game": o.game, "precision": o.precision}
    return Case(labels, variants, derive=bound, figures=figures)


def cases(o: Options) -> list[Build]:
    return [partial(case, o, algorithm) for algorithm in o.algorithms]


def lines(o: Options, result: dict[str, Any]) -> list[str]:
    """Return, for each algorithm, a line of text with the FLOP/s of its updates."""
    text = [""]
    for r in result["results"]:
        u, share = r["update"], 100 * r["update"]["share_of_peak"]
        speed = f"{u['gflops']:,.0f} GFLOP/s, {share:.0f} % of a matrix product's {u['peak_gflops']:,.0f}"
        sample = f"{u['mflop_per_sample']:.1f} MFLOP a sample, used {r['uses']:g} times"
        text.append(f"{r['algorithm']}: an update runs at {speed}; {sample}")
    return text


main = Benchmark("train", __doc__, Options, cases, lines=lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
