"""Comparison of replays: transitions/s appended and drawn, bytes per transition.

Each peer, and our replay on the host (and on a GPU if there is one), draws batches with both observations of each
transition as complete stacks. Prioritized replays also write back new priorities. Turns are interleaved.

With --train it also measures Table 1 of Parr 2017: a train step of DQN with the replay on the training device, relative
to a replay in host memory, for pictures and for vectors of 27 floats, by batch size (without a GPU: host and host).

    python -m benchmarks.replay --json OUT
"""

import contextlib
import functools
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.process import before_torch

before_torch()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from accel_rl.algos.dqn import DQN, DQNConfig  # noqa: E402
from accel_rl.data.rollout import Rollout  # noqa: E402
from accel_rl.data.spec import EnvSpec  # noqa: E402
from accel_rl.distributed.gradient_sync import Local  # noqa: E402
from accel_rl.distributed.guarded_step import GuardedStep  # noqa: E402
from accel_rl.optim.flat import FlatParameters  # noqa: E402
from accel_rl.replays.config import ReplayConfig  # noqa: E402
from accel_rl.replays.ring import NStep  # noqa: E402
from accel_rl.system import hardware  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians, ratio  # noqa: E402
from benchmarks.peer_replays import EPISODE, PEERS, STACK, H, PeerReplay, W, priorities  # noqa: E402
from benchmarks.program import program  # noqa: E402

PICTURES = EnvSpec("pictures", (H, W), "uint8", 6, STACK)
VECTORS = EnvSpec("vectors", (27,), "float32", 6, 1)  # as many floats as in Parr 2017
OURS = "accel_rl"


@dataclass(frozen=True)
class Options:
    batch: tuple[int, ...] = (32, 512)
    """Batch sizes."""
    peers: tuple[str, ...] = tuple(PEERS)
    """Peers to measure: SB3, Tianshou, cpprb, TorchRL. Peers that are not installed are named and left out."""
    capacity: Count = 40_000
    """Capacity of every replay, in transitions."""
    simulators: Count = 8
    """B, number of environments that the experience comes from."""
    n_step: Count = 1
    """n of our replay's n-step returns (the peers have 1)."""
    seconds: float = 1.0
    """Minimum length of one measurement."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    threads: Count = 0
    """Number of torch threads. 0: one per usable core."""
    train: bool = False
    """Also measure the train step with the replay on the device and on the host."""
    json: str = ""
    """Also write everything to this file."""


class Ours:
    """Our replay, filled by rollouts of 16 steps."""

    T = 16

    def __init__(self, o: Options, prioritized: bool, spec: EnvSpec = PICTURES, device: str = "cpu", learner: str = ""):
        config = ReplayConfig(size=o.capacity, prioritized=prioritized, device=device)
        self.replay = config.build(spec, o.simulators, NStep(o.n_step), learner or device, seed=0)
        self._rollout = made_up(spec, self.T, o.simulators, device)
        for _ in range(o.capacity // (self.T * o.simulators) + 1):
            self.append()
        levels = getattr(self.replay.selection, "tree", None)
        sums = sum(level.nbytes for level in levels.levels) if levels is not None else 0
        self.bytes_each = (self.replay.ring.nbytes + sums) / o.capacity

    def append(self) -> int:
        self.replay.append(self._rollout)
        return self._rollout.action.numel()

    def sample(self, N: int) -> Any:
        return self.replay.sample(N)

    def sample_and_update(self, N: int) -> None:
        self.replay.update(self.sample(N), errors(N, self.replay.device))


@functools.cache
def errors(N: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(priorities(N)).float().to(device)


def made_up(spec: EnvSpec, T: int, B: int, device: str) -> Rollout:
    """Return a rollout of random frames, in which an episode ends every EPISODE steps on average."""
    g = torch.Generator().manual_seed(0)
    shape = (spec.stack - 1 + T + 1, B, *spec.frame_shape)
    if spec.is_image:
        frames = torch.randint(0, 256, shape, dtype=torch.uint8, generator=g)
    else:
        frames = torch.randn(shape, generator=g)
    ended = torch.rand(T, B, generator=g) < 1 / EPISODE
    age = torch.full((T + 1, B), spec.oldest, dtype=torch.uint8)
    age[1:][ended] = 0
    rollout = Rollout(
        frames, frames[spec.stack :], age, torch.randint(0, 6, (T, B), generator=g), torch.ones(T, B), ended,
        torch.zeros_like(ended), ended, torch.ones_like(ended), spec.stack,
    )  # fmt: skip
    for name in Rollout.__slots__:
        value = getattr(rollout, name)
        if isinstance(value, torch.Tensor):
            setattr(rollout, name, value.to(device))
    return rollout


def rate(work: Callable[[], int], seconds: float) -> float:
    """Measure transitions/s of `work`, which returns the number of transitions of a call."""
    n, begin = work(), time.perf_counter()
    n = 0
    while (took := time.perf_counter() - begin) < seconds:
        for _ in range(4):
            n += work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return n / took


def installed(names: tuple[str, ...]) -> list[str]:
    missing = [n for n in names if importlib.util.find_spec(PEERS[n].package) is None]  # type: ignore[attr-defined]
    if missing:
        packages = " ".join(PEERS[n].package.replace("_", "-") for n in missing)  # type: ignore[attr-defined]
        print(f"left out: {', '.join(missing)}, not installed (pip install {packages})", file=sys.stderr)
    return [n for n in names if n not in missing]


def replays(o: Options, kind: str, peers: list[str]) -> dict[str, PeerReplay]:
    prioritized = kind == "prioritized"
    found: dict[str, PeerReplay] = {OURS: Ours(o, prioritized)}
    if hardware.gpu_count():
        found[f"{OURS} on cuda"] = Ours(o, prioritized, device="cuda")
    for name in peers:
        if kind not in PEERS[name].kinds:  # type: ignore[attr-defined]
            continue
        try:
            found[name] = PEERS[name](o.capacity, o.simulators, prioritized, np.random.default_rng(0))
        except RuntimeError as e:  # TorchRL's sums are built for one release of torch
            print(f"left out: {name}, {kind}: {' '.join(str(e).split())}", file=sys.stderr)
    return found


def compare(o: Options, kind: str, peers: list[str], bar: Bar) -> dict[str, Any]:
    """Measure all replays of a kind in turns, at every batch size."""
    there = replays(o, kind, peers)
    result: dict[str, Any] = {"kind": kind, "bytes": {n: r.bytes_each for n, r in there.items()}}
    appends = {n: (lambda r=r: rate(r.append, o.seconds)) for n, r in there.items()}
    result["append"] = interleave(appends, o.repeats, bar, f"append, {kind}: ")
    for N in o.batch:
        draws = {n: drawing(r, kind, N, o.seconds) for n, r in there.items()}
        result[f"sample {N}"] = interleave(draws, o.repeats, bar, f"sample {N}, {kind}: ")
    return result


def drawing(r: PeerReplay, kind: str, N: int, seconds: float) -> Callable[[], float]:
    """Return a measurement of transitions/s drawn and, if prioritized, given new priorities."""

    def work() -> int:
        (r.sample_and_update if kind == "prioritized" else r.sample)(N)
        return N

    return lambda: rate(work, seconds)


def train_step(o: Options, spec: EnvSpec, replay_device: str, learner: str, N: int) -> Callable[[], float]:
    """Measure transitions/s of complete train steps of DQN: draw, loss, backward, optimizer."""
    config = DQNConfig(
        replay=ReplayConfig(size=o.capacity, start=0, device=replay_device), batch_size=N, network="nature"
    )
    algo = DQN(config, spec, T=Ours.T, B=o.simulators, device=learner)
    flat = FlatParameters(algo.agent.model)
    gradient_sync = Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), None))
    algo.begin()
    for _ in range(o.capacity // (Ours.T * o.simulators) + 1):
        algo.replay.append(made_up(spec, Ours.T, o.simulators, learner))

    def step() -> int:
        loss = algo.loss(algo.replay.sample(N))
        flat.backward(loss.total)
        gradient_sync.step(1e-4, loss.total.detach())
        return N

    return lambda: rate(step, o.seconds)


def parr(o: Options, bar: Bar) -> list[dict[str, Any]]:
    """Measure Table 1 of Parr 2017: percent speed-up of a train step by a replay on the training device."""
    learner, rows = ("cuda" if hardware.gpu_count() else "cpu"), []
    for spec in (PICTURES, VECTORS):
        for N in o.batch:
            parts = {"device": train_step(o, spec, learner, learner, N), "host": train_step(o, spec, "cpu", learner, N)}
            found = interleave(parts, o.repeats, bar, f"train {spec.name} {N}: ")
            speedup = ratio(found["device"], found["host"])
            rows.append({"observations": spec.name, "batch": N, "learner": learner, "measurements": found,
                         "percent": 100 * (speedup["of_medians"] - 1)})  # fmt: skip
    return rows


def table(r: dict[str, Any]) -> list[str]:
    """Format the table of one kind: medians, and the ratio of our replay to each peer."""
    columns = ["append", *(k for k in r if k.startswith("sample"))]
    lines = [f"{r['kind']:<18}{'bytes':>9}" + "".join(f"{c + ', /s':>19}" for c in columns)]
    for name, size in r["bytes"].items():
        cells = ""
        for c in columns:
            m = medians(r[c])
            over = "" if name.startswith(OURS) else f" ({m[OURS] / m[name]:.1f}x)"
            cells += f"{m[name]:>11,.0f}{over:>8}"
        lines.append(f"  {name:<16}{size:>9,.0f}{cells}")
    return lines


def check(o: Options) -> None:
    for name in o.peers:
        if name not in PEERS:
            raise ConfigError(f"--peers {name}: must be of {', '.join(PEERS)}{nearest(name, PEERS)}")
    if min(o.repeats, o.simulators, o.n_step, *o.batch) < 1 or not o.seconds > 0 or o.threads < 0:
        raise ConfigError(
            f"--repeats {o.repeats} --simulators {o.simulators} --n-step {o.n_step} --batch {o.batch} "
            f"--seconds {o.seconds} --threads {o.threads}: at least 1, seconds above 0, threads 0 or more"
        )
    if o.capacity < max(2 * EPISODE, 64 * o.simulators, 2 * max(o.batch)):
        least = max(2 * EPISODE, 64 * o.simulators, 2 * max(o.batch))
        raise ConfigError(f"--capacity {o.capacity}: must be at least {least}")


def run(o: Options) -> dict[str, Any]:
    peers = installed(o.peers)
    torch.set_num_threads(o.threads or len(hardware.allowed_cores()))
    ours = 2 if hardware.gpu_count() else 1
    kinds = [(k, ours + sum(k in PEERS[p].kinds for p in peers)) for k in ("uniform", "prioritized")]  # type: ignore[attr-defined]
    steps = sum(n for _, n in kinds) * (1 + len(o.batch)) + (4 * len(o.batch) if o.train else 0)
    with contextlib.closing(Bar(o.repeats * steps)) as bar:
        results = [compare(o, kind, peers, bar) for kind, _ in kinds]
        return {"results": results, "train": parr(replace(o, n_step=1), bar) if o.train else []}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    return [
        *(line for r in result["results"] for line in table(r)),
        f"the bound on bytes is {1.02 * (H * W + 16):,.0f}; factors are ours against the peer",
        *(
            f"train step, {row['observations']}, batch {row['batch']}, on {row['learner']}: {row['percent']:+.1f} % "
            "by a replay on the device"
            for row in result["train"]
        ),
    ]


def main(argv: list[str]) -> int:
    return program("replay", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
