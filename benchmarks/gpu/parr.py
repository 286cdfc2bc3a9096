"""Parr 2017, table 1: speed-up of a train step of dueling DQN by a replay on the device, over a replay on the host.

A train step draws a batch, computes loss and gradient and makes the optimizer's step.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accel_rl.algos.algorithm import advance
from accel_rl.data.spec import EnvSpec
from accel_rl.runners.learner import Learner
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.replays import B, T, rollout_on
from benchmarks.gpu.training import settings
from benchmarks.interleave import medians, ratio
from benchmarks.replay import PICTURES, VECTORS

COLUMNS = (
    "observations", "batch", "replay on the host, steps/s", "on the device, steps/s", "speed-up, percent",
    "on the device and captured, steps/s", "speed-up, percent",
)  # fmt: skip
HOST, DEVICE, CAPTURED = "host", "device", "device, captured"


def measure(bench: Bench) -> Result:
    result = Result(COLUMNS)
    cases = [(spec, N) for spec in (PICTURES, VECTORS) for N in bench.sizes.parr_batches]
    for i, (spec, N) in enumerate(cases):
        steps = {
            HOST: train_step(bench, spec, N, "cpu", False),
            DEVICE: train_step(bench, spec, N, bench.device, False),
            CAPTURED: train_step(bench, spec, N, bench.device, True),
        }
        named = {f"{spec.name} {N}, {name}": step for name, step in steps.items()}
        found = bench.turns(named, 1 / (len(cases) - i))
        m = medians(found)
        host, device, captured = named
        percent = [100 * (ratio(found[x], found[host])["of_medians"] - 1) for x in (device, captured)]
        result.rows.append([spec.name, N, m[host], m[device], percent[0], m[captured], percent[1]])
        result.measurements |= found
    result.notes.append("a replay on the host cannot be drawn from within a CUDA graph")
    return result


def train_step(bench: Bench, spec: EnvSpec, N: int, replay_device: str, capture: bool) -> Callable[[float], float]:
    """Return a measurement of train steps/s with a replay on `replay_device`."""
    network = {"network": bench.sizes.daley_network} if spec.is_image else {"hidden": 512}
    config = settings(bench, "dqn", B, T, batch_size=N, dueling=True, **network)
    algo: Any = config.algo
    kept = replace(algo.replay, size=bench.sizes.capacity, start=0, device=replay_device)
    config = replace(config, algo=replace(algo, replay=kept), capture_updates=capture)
    learner = Learner(config, spec, bench.device, seed=0)
    learner.algo.begin()
    rollout = rollout_on(bench.device, spec)
    for _ in range(bench.sizes.capacity // (T * B) + 1):
        advance(learner.algo, rollout.env_steps)
        learner.algo.ingest(rollout)

    def steps() -> int:
        learner.algo.budget.set(bench.sizes.at_once)  # type: ignore[attr-defined]
        return len(learner.learn())

    for _ in range(4):
        steps()
    return lambda seconds: bench.rate(steps, seconds)
