"""Measures replays on the GPU and on the host: appends, draws, and train steps (Parr 2017, table 1)."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from accel_rl.algos.algorithm import advance
from accel_rl.data.spec import EnvSpec
from accel_rl.replays.replay import Replay
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs
from accel_rl.training.learner import Learner
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import settings
from benchmarks.harness.measured_training import rate
from benchmarks.harness.program import Case
from benchmarks.harness.turns import Measurements, medians, ratio
from benchmarks.replay import PICTURES, VECTORS, Ours, drawing, made_up

COPY = "a plain copy, bytes"
T, B = Ours.T, 8
AT_ONCE = 8
"""Number of draws in one CUDA graph, the same as in training."""


def measure(bench: Bench) -> Result:
    """Measure appends, and uniform and prioritized draws, from Python and in CUDA graphs."""
    result = bench.run([partial(case, bench)], "a second")
    m = result.cases[0]["median"]
    result.notes = [
        f"a plain copy on {bench.device} moves {m[COPY] / 1e9:,.1f} GB/s, reads and writes together",
        f"a transition of a batch moves {result.cases[0]['bytes']:,.0f} bytes, each read once and written once",
        f"{AT_ONCE} draws make one CUDA graph",
    ]
    return result


def case(bench: Bench, stack: ExitStack) -> Case:
    """Build uniform and prioritized replays on the GPU and on the host, and the measurements of appends and draws."""
    device, size = bench.device, 0.0
    parts: dict[str, Callable[[], float]] = {}
    for prioritized in (False, True):
        kind, what = ("prioritized", "draw and update") if prioritized else ("uniform", "draw")
        for where in dict.fromkeys((device, "cpu")):
            appended, drawn = (Ours(bench.sizes.capacity, B, 1, prioritized, where, device) for _ in range(2))
            # Appends and draws use different replays, because an append would make captured draws invalid.
            parts[f"{kind}, {where}, append"] = appended.append
            for N in bench.sizes.draws:
                size = size or _bytes(drawn.replay, N)
                draw = partial(drawing, drawn, kind, N)
                parts[f"{kind}, {where}, {what} {N}"] = draw
                if drawn.replay.is_capturable:
                    parts[f"{kind}, {where}, {what} {N}, captured"] = _captured(drawn.replay, draw, N)
    source = torch.zeros(bench.sizes.copied_bytes, dtype=torch.uint8, device=device)
    parts[COPY] = partial(_copy, torch.empty_like(source), source)

    def columns(rates: Measurements) -> dict[str, dict[str, Any]]:
        m = medians(rates)
        moved = {name: rate * size for name, rate in m.items() if "draw" in name}
        share = {name: each / m[COPY] for name, each in moved.items() if f", {device}, " in name}
        return {"GB/s": {n: each / 1e9 for n, each in moved.items()}, "share of a plain copy's bandwidth": share}

    variants = {name: partial(rate, work, device=device) for name, work in parts.items()}
    labels = {"replay of": PICTURES.name}
    return Case(labels, variants, compared=False, columns=columns, figures=lambda _: {"bytes": size})


def _copy(target: torch.Tensor, source: torch.Tensor) -> int:
    target.copy_(source)
    return 2 * source.nbytes


def _bytes(replay: Replay, N: int) -> float:
    """Return how many bytes a draw reads and writes per transition of the batch."""
    batch = replay.sample(N)
    return sum(2 * getattr(batch, name).nbytes for name in batch.__slots__) / N


def _captured(replay: Replay, draw: Callable[[], int], N: int) -> Callable[[], int]:
    """Capture AT_ONCE draws as a CUDA graph, and return a function that replays the graph."""
    graphs = CudaGraphs(replay.device)

    def draws() -> None:
        for _ in range(AT_ONCE):
            draw()

    for _ in range(WARM_UP):
        with graphs.warming_up():
            draws()
    run = graphs.capture(draws, [replay.generator])

    def again() -> int:
        run()
        return AT_ONCE * N

    return again


def parr(bench: Bench) -> Result:
    """Compare train steps/s of dueling DQN with a replay on the GPU and with a replay on the host. A train step draws a
    batch, computes loss and gradient, and makes a step of the optimizer."""
    sizes = [(spec, N) for spec in (PICTURES, VECTORS) for N in bench.sizes.parr_batches]
    result = bench.run([partial(parr_case, bench, spec, N) for spec, N in sizes], "train steps/s")
    result.notes.append("a replay on the host cannot be drawn from within a CUDA graph")
    return result


def parr_case(bench: Bench, spec: EnvSpec, N: int, stack: ExitStack) -> Case:
    """Build the measurements of train steps of dueling DQN with both replays."""
    places = {"host": ("cpu", False), "device": (bench.device, False), "device, captured": (bench.device, True)}
    variants = {name: _train_step(bench, spec, N, *place) for name, place in places.items()}

    def columns(m: Measurements) -> dict[str, dict[str, Any]]:
        over = {name: ratio(m[name], m["host"])["of_medians"] for name in m}
        return {"speed-up, percent": {name: 100 * (x - 1) for name, x in over.items()}}

    return Case({"observations": spec.name, "batch": N}, variants, compared=False, columns=columns)


def _train_step(bench: Bench, spec: EnvSpec, N: int, where: str, capture: bool) -> Callable[[float], float]:
    """Return a function that measures train steps/s with a replay on the device `where`."""
    network = {"network": bench.sizes.daley_network} if spec.is_image else {"hidden": (512,)}
    config = settings(bench, "dqn", B, T, batch_size=N, dueling=True, **network)
    algo: Any = config.algo
    memory = replace(algo.replay, size=bench.sizes.capacity, start=0, device=where)
    config = replace(config, algo=replace(algo, replay=memory), capture_updates=capture)
    learner = Learner(config, spec, bench.device, seed=0)
    learner.algo.begin()
    rollout = made_up(spec, T, B, bench.device)
    for _ in range(bench.sizes.capacity // (T * B) + 1):
        advance(learner.algo, rollout)
        learner.algo.ingest(rollout)

    def steps() -> int:
        learner.algo.budget.set(bench.sizes.at_once)  # type: ignore[attr-defined]
        return len(learner.learn())

    for _ in range(4):
        steps()
    return partial(rate, steps, device=bench.device)
