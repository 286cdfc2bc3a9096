"""Draws from replays on the device and on the host, against the memory bandwidth of a plain copy on the device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from accel_rl.data.rollout import Rollout
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import NStep
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs
from benchmarks.gpu.bench import Bench, Result
from benchmarks.interleave import medians
from benchmarks.replay import PICTURES, made_up

COLUMNS = ("replay", "frames on", "work", "batch", "transitions/s", "GB/s", "share of a plain copy's bandwidth")
T, B = 16, 8
AT_ONCE = 8
"""Draws of one CUDA graph, as in training."""


def rollout_on(device: str, spec: Any = PICTURES) -> Rollout:
    """Return a made-up rollout on the device, with its cells in host memory, as samplers return it."""
    host = made_up(spec, T, B, "cpu")
    if device == "cpu":
        return host
    rollout = made_up(spec, T, B, device)
    rollout.host = host
    return rollout


def filled(bench: Bench, where: str, prioritized: bool) -> tuple[Replay, Rollout]:
    """Return a full replay whose frames lie on `where`, with batches on the bench's device, and a rollout."""
    config = ReplayConfig(size=bench.sizes.capacity, prioritized=prioritized, device=where)
    replay = config.build(PICTURES, B, NStep(1), bench.device, seed=0)
    rollout = rollout_on(bench.device)
    for _ in range(bench.sizes.capacity // (T * B) + 1):
        replay.append(rollout)
    return replay, rollout


def measure(bench: Bench) -> Result:
    device = bench.device
    parts: dict[tuple[str, str, str, int], Callable[[float], float]] = {}
    size = 0.0
    for prioritized in (False, True):
        kind = "prioritized" if prioritized else "uniform"
        for where in dict.fromkeys((device, "cpu")):
            replay, _ = filled(bench, where, prioritized)  # nothing is appended to it: captured draws stay valid
            parts[kind, where, "append", T * B] = partial(
                bench.rate, partial(_append, *filled(bench, where, prioritized))
            )
            for N in bench.sizes.draws:
                size = size or _bytes(replay, N)
                draw = partial(_draw, replay, N, torch.rand(N, device=device) if prioritized else None)
                what = "draw and update" if prioritized else "draw"
                parts[kind, where, what, N] = partial(bench.rate, draw)
                if replay.is_capturable:
                    parts[kind, where, f"{what}, captured", N] = partial(bench.rate, captured(replay, draw, N))
    source = torch.zeros(bench.sizes.copied_bytes, dtype=torch.uint8, device=device)
    copy = partial(bench.rate, partial(_copy, torch.empty_like(source), source))
    found = bench.turns({" ".join(map(str, key)): work for key, work in parts.items()} | {"copy": copy})
    m = medians(found)
    rows: list[list[Any]] = []
    for key in parts:
        kind, where, what, N = key
        rate = m[" ".join(map(str, key))]
        moved = None if what == "append" else rate * size
        share = None if moved is None or where != device else moved / m["copy"]
        rows.append([kind, where, what, N, rate, None if moved is None else moved / 1e9, share])
    notes = [
        f"a plain copy on {device} moves {m['copy'] / 1e9:,.1f} GB/s, reads and writes together",
        f"a transition of a batch moves {size:,.0f} bytes, each read once and written once",
        f"{AT_ONCE} draws make one CUDA graph",
    ]
    return Result(COLUMNS, rows, notes=notes, measurements=found)


def _append(replay: Replay, rollout: Rollout) -> int:
    replay.append(rollout)
    return T * B


def _draw(replay: Replay, N: int, errors: torch.Tensor | None) -> int:
    batch = replay.sample(N)
    if errors is not None:
        replay.update(batch, errors)
    return N


def _copy(target: torch.Tensor, source: torch.Tensor) -> int:
    target.copy_(source)
    return 2 * source.nbytes


def _bytes(replay: Replay, N: int) -> float:
    """Return the bytes that one transition of a batch moves."""
    batch = replay.sample(N)
    return sum(2 * getattr(batch, name).nbytes for name in batch.__slots__) / N


def captured(replay: Replay, draw: Callable[[], int], N: int) -> Callable[[], int]:
    """Return a function that replays a CUDA graph of draws."""
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
