"""The short training runs that the tests make on the CPU, on a simulated GPU, and on a real GPU."""

import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.inference.resident import KNOWN
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text import output
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.trainer import Trainer
from tests import simulated_device
from tests.golden.runs import POLE, SEQUENCES, SMALL, config

GPU = "sim:0"
# The host waits for a group's actions in the file SERVED.
SERVED = "accel_rl/samplers/inference/device_rollouts.py"

CAPTURE = "accel_rl/speed/cuda_graph.py"  # the file in which the host waits for the GPU before it captures a graph


def q(algorithm: str, env: str = POLE, schedule: str = "lockstep", secondary: int = 0, **algo: Any) -> TrainConfig:
    """Return the settings of a run of Q-learning. Arguments with the prefix `replay_` are settings of the replay."""
    base = config(algorithm, env, horizon=4, **{k: v for k, v in algo.items() if not k.startswith("replay_")})
    settings = {k.removeprefix("replay_"): v for k, v in algo.items() if k.startswith("replay_")}
    found = replace(base, algo=replace(base.algo, replay=replace(base.algo.replay, **settings)), schedule=schedule)
    return replace(found, secondary=replace(found.secondary, batch=secondary)) if secondary else found


LSTM = {"lstm": 8, "network": "a3c"}
RETURNS = {"v_min": 0.0, "v_max": 20.0}
HOST = {"replay_device": "cpu"}
WAITING = config("ppo", POLE, horizon=16, minibatch=32, epochs=2)
RUNS: dict[str, TrainConfig] = {
    "a2c, pong": config("a2c"),
    "a2c, time limits": config("a2c", POLE, gae_lambda=0.9),
    "a2c, LSTM": config("a2c", POLE, **LSTM),
    "ppo, pong": config("ppo", horizon=8, minibatch=32, epochs=2, clip_schedule="linear"),
    "ppo, time limits": config("ppo", POLE, horizon=16, minibatch=32, epochs=3, value_clip=0.2),
    "ppo, KL": config("ppo", POLE, horizon=16, minibatch=32, epochs=2, learning_rate_schedule="kl", schedule_kl=1e-4),
    "ppo, LSTM": config("ppo", POLE, horizon=8, minibatch=32, epochs=2, **LSTM),
    "ppo, uneven minibatches": config("ppo", POLE, horizon=9, minibatch=20, normalize_advantage="rollout"),
    "ppo, some steps invalid": replace(WAITING, sampler=replace(WAITING.sampler, reset="wait")),
    "pqn, pong": config("pqn", horizon=8, minibatch=32, epochs=2),
    "pqn, norm before": config(
        "pqn", POLE, horizon=16, minibatch=32, epochs=2, layer_norm="before", epsilon_spread=7.0
    ),
    "pqn, LSTM": config("pqn", POLE, horizon=8, minibatch=32, epochs=2, **LSTM),
    "ppo, real actions": config("ppo", "tests.action_spaces:numbers", horizon=16, minibatch=32, epochs=2),
    "ppo, normalized": config("ppo", POLE, horizon=16, minibatch=32, epochs=2, normalize=True),
    "dqn, masks": q("dqn", "tests.action_spaces:masks", n_step=3),
    "impala": config("impala", POLE, window=10, batches=2, horizon=5),
    "impala, LSTM": config("impala", POLE, window=10, batches=2, horizon=5, **LSTM),
    "dqn, pong": q("dqn", "pong"),
    "dqn": q("dqn", learning_rate_schedule="linear"),
    "dqn, concurrent": q("dqn", schedule="concurrent"),
    "dqn, replay on the host": q("dqn", **HOST),
    "dqn, concurrent, replay on the host": q("dqn", schedule="concurrent", **HOST),
    "dqn, without replacement, replay on the host": q("dqn", replay_replacement=False, **HOST),
    "dqn, prioritized, three steps": q("dqn", replay_prioritized=True, n_step=3, double=True, dueling=True),
    "dqn, second learner": q("dqn", secondary=8),
    "dqn, concurrent, second learner": q("dqn", schedule="concurrent", secondary=8),
    "dqn, epsilon of each environment": q("dqn", epsilon_spread=7.0),
    "c51, pong": q("c51", "pong"),
    "qrdqn": q("qrdqn", quantiles=7, double=True, dueling=True),
    "iqn": q("iqn", quantiles=7, target_quantiles=5, value_quantiles=4, cosines=8, munchausen=0.9),
    "btr, pong": q("btr", "pong", quantiles=4, target_quantiles=4, value_quantiles=4, network="btr"),
    "iqn, concurrent, replay on the host": q(
        "iqn", schedule="concurrent", quantiles=7, target_quantiles=5, value_quantiles=4, cosines=8, noisy=True, **HOST
    ),
    "c51, concurrent": q("c51", schedule="concurrent", **RETURNS),
    "rainbow, noisy": q("rainbow", noisy=True, **RETURNS),
    "rainbow, noisy, concurrent": q("rainbow", noisy=True, schedule="concurrent", **RETURNS),
    "rainbow, noisy, replay on the host": q("rainbow", noisy=True, **RETURNS, **HOST),
    "rainbow, concurrent": q("rainbow", schedule="concurrent", **RETURNS),
    "rainbow, replay on the host": q("rainbow", **RETURNS, **HOST),
    "rainbow, second learner": q("rainbow", secondary=8, **RETURNS),
    "r2d2, pong": q("r2d2", "pong", **SEQUENCES),
    "r2d2": q("r2d2", **SEQUENCES),
    "r2d2, concurrent": q("r2d2", schedule="concurrent", **SEQUENCES),
    "r2d2, uniform": q("r2d2", replay_prioritized=False, **SEQUENCES),
    "r2d2, replay on the host": q("r2d2", **SEQUENCES, **HOST),
    "r2d2, concurrent, second learner": q("r2d2", schedule="concurrent", secondary=2, **SEQUENCES),
    # Further combinations of an algorithm, a schedule, a replay (on the host, prioritized), and a second learner.
    "dqn, prioritized, concurrent": q("dqn", schedule="concurrent", replay_prioritized=True),
    "dqn, prioritized, replay on the host": q("dqn", replay_prioritized=True, **HOST),
    "dqn, second learner, replay on the host": q("dqn", secondary=8, **HOST),
    "c51, prioritized": q("c51", replay_prioritized=True, **RETURNS),
    "c51, replay on the host": q("c51", **RETURNS, **HOST),
    "c51, second learner": q("c51", secondary=8, **RETURNS),
    "c51, concurrent, second learner": q("c51", schedule="concurrent", secondary=8, **RETURNS),
    "c51, concurrent, replay on the host": q("c51", schedule="concurrent", **RETURNS, **HOST),
    "rainbow, uniform": q("rainbow", replay_prioritized=False, **RETURNS),
    "rainbow, concurrent, second learner": q("rainbow", schedule="concurrent", secondary=8, **RETURNS),
    "rainbow, concurrent, replay on the host": q("rainbow", schedule="concurrent", **RETURNS, **HOST),
    # Runs of every algorithm and network on a game, which need no Gymnasium.
    "a2c, LSTM, pong": config("a2c", **LSTM),
    "a2c, IMPALA network, pong": config("a2c", network="impala"),
    "a2c, Nature network, pong": config("a2c", network="nature"),
    "ppo, LSTM, pong": config("ppo", horizon=8, minibatch=32, epochs=2, **LSTM),
    "pqn, LSTM, pong": config("pqn", horizon=8, minibatch=32, epochs=2, **LSTM),
    "dqn, IMPALA network, pong": q("dqn", "pong", network="impala"),
    "dqn, padded network, pong": q("dqn", "pong", network="nature-same"),
    "pqn, Hadamax network, pong": config("pqn", horizon=4, minibatch=16, epochs=1, network="hadamax"),
    "dqn, BTR network, pong": q("dqn", "pong", network="btr", double=True),
    "dqn, concurrent, pong": q("dqn", "pong", schedule="concurrent"),
    "rainbow, noisy, pong": q("rainbow", "pong", noisy=True),
    "rainbow, noisy, concurrent, pong": q("rainbow", "pong", noisy=True, schedule="concurrent"),
}
GPU_QUICK = (
    *("a2c, pong", "a2c, LSTM, pong", "a2c, IMPALA network, pong", "ppo, pong", "pqn, pong", "dqn, pong", "c51, pong"),
    *("rainbow, noisy, pong", "dqn, concurrent, pong", "rainbow, noisy, concurrent, pong"),
)
"""Runs of the fast tests on a real GPU, which need no Gymnasium."""
QUICK = ("a2c, LSTM", "impala", "dqn, replay on the host", "rainbow, noisy, concurrent")
"""Runs of the fast tests: each schedule, each device of the replay, uniform and prioritized replay."""
assert SMALL["batch_size"] == 16


def marked(names: Iterable[str], quick: Iterable[str] = QUICK) -> list[Any]:
    """Return the names of runs as test parameters. Runs that are not in `quick` are slow tests."""
    found = []
    for n in names:
        marks = [] if n in quick else [pytest.mark.slow]
        is_missing = not RUNS[n].env.game and importlib.util.find_spec("gymnasium") is None
        marks += [pytest.mark.skip(reason="needs gymnasium")] if is_missing else []
        found.append(pytest.param(n, marks=marks))
    return found


@dataclass
class Played:
    """Results of a run: the parameters [P] of each learner and, for each training cycle, the means of the metrics, the
    host's waits for the GPU, and the number of updates."""

    parameters: list[Tensor]
    metrics: list[dict[str, float]]
    waits: list[Counter[str]]
    updates: list[int]  # by cycle
    events: str


def on_device(run: TrainConfig, **sampler: Any) -> TrainConfig:
    """Return the run's settings with engine `device`, which plays games on the learner's device, and two groups."""
    return resolve(replace(run, sampler=replace(run.sampler, engine="device", groups=2, **sampler)))


def declare_parts(sampler: Any) -> None:
    """Tell the simulated GPU not to check the order of accesses to a rollout's arrays, because groups of environments
    access separate parts of the arrays."""
    rollouts = sampler.server.rollouts
    names = ("frames", "final_frames", *KNOWN) if sampler.memory.resident else ("frames", "age")
    simulated_device.in_parts(*(getattr(r, name) for r in rollouts for name in names))


def build(run: TrainConfig, device: str, folder: Path) -> Trainer:
    """Build the trainer of a run with two groups of environments.

    The number of groups is fixed, because noise is drawn for each group's batch, and because the default depends on the
    number of cores.
    """
    run = resolve(replace(run, device=device, sampler=replace(run.sampler, groups=2)))
    trainer = build_trainer(run, RankPlan.resolve(run), RunFolder.create(folder, run))
    declare_parts(trainer.sampler)
    return trainer


def cycles(trainer: Trainer, n: int) -> tuple[list[dict[str, float]], list[Counter[str]], list[int]]:
    """Train for n training cycles. Returns the mean metrics, the host's waits for the GPU, and the updates of each
    cycle."""
    found, waits, updates = [], [], []
    for _ in range(n):
        before = trainer.learner.updates
        with simulated_device.counting() as waited:
            trainer._cycle()
        waits.append(waited)
        updates.append(trainer.learner.updates - before)
        found.append(trainer.reporter.recorder.means())
    return found, waits, updates


@contextmanager
def permutations_of_a_gpu() -> Iterator[None]:
    """Context manager in which the CPU draws permutations from a separate generator, as a GPU does.

    torch.manual_seed also seeds the separate generator. The initial parameters of networks are always drawn on the
    host.
    """
    generator, randperm = torch.Generator(), torch.randperm

    def drawn(n: int, **settings: Any) -> Tensor:
        if generator.initial_seed() != torch.initial_seed():
            generator.manual_seed(torch.initial_seed())
        return randperm(n, **({"generator": generator} | settings))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randperm", drawn)
        yield


def play(run: TrainConfig, device: str, folder: Path, n: int = 12) -> Played:
    torch.manual_seed(0)
    trainer = build(run, device, folder)
    trainer.reporter.open(0, 0)
    lines: list[str] = []
    try:
        with (
            output.written(lines.append, lines.append),
            permutations_of_a_gpu() if device == "cpu" else nullcontext(),
        ):
            metrics, waits, updates = cycles(trainer, n)
        parameters = [x.flat.data.cpu().clone() for x in trainer.learners]
    finally:
        trainer._close()
    return Played(parameters, metrics, waits, updates, "\n".join(lines))
