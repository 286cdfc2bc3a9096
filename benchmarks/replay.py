"""Compares accel_rl's replays with those of other packages: transitions/s of appends and draws, and bytes per
transition.

All replays are measured in turns, accel_rl's also on a GPU if the machine has one. Batches contain both observations of
each transition as complete stacks. After a draw, prioritized replays get new priorities. `benchmarks.gpu --part parr`
measures train steps with a replay on the GPU and on the host (Parr 2017, table 1).

The command is `python -m benchmarks.replay --json OUT`.
"""

import copy
import functools
import importlib.util
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch

from accel_rl import ReplayBuffer
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.machine import hardware
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.ring import NStep
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness import program
from benchmarks.harness.measured_training import rate
from benchmarks.harness.peer_replays import EPISODE, PEERS, STACK, H, W, priorities
from benchmarks.harness.program import Benchmark, Build, Case

PICTURES = EnvSpec("pictures", (H, W), "uint8", 6, STACK)
VECTORS = EnvSpec("vectors", (27,), "float32", 6, 1)  # as in Parr 2017
OURS = "accel_rl"
KINDS = ("uniform", "prioritized")


@dataclass(frozen=True)
class Options(program.Options):
    batch: tuple[int, ...] = (32, 512)
    """Batch sizes."""
    peers: tuple[str, ...] = tuple(PEERS)
    """Packages whose replays are measured: SB3, Tianshou, cpprb, TorchRL. Packages that are not installed are listed
    and omitted."""
    capacity: Count = 40_000
    """Capacity of every replay, in transitions."""
    simulators: Count = 8
    """Number B of environments that produce the transitions."""
    n_step: Count = 1
    """Number n of steps of this project's returns (other packages have 1)."""
    seconds: float = 1.0
    """Minimum length of one measurement in seconds."""
    threads: Count = 0
    """Number of torch threads, or 0 for one per usable core."""

    TINY: ClassVar[dict[str, Any]] = {"batch": (8,), "capacity": 2_000}

    def check(self) -> None:
        super().check()
        self.one_of("peers", tuple(PEERS))
        self.at_least(1, "batch", "simulators", "n_step")
        self.at_least(0, "threads")
        self.at_least(max(2 * EPISODE, 64 * self.simulators, 2 * max(self.batch)), "capacity")
        if not self.batch:
            raise ConfigError("--batch: at least one")


class Ours:
    """A replay of accel_rl on `device`, filled by rollouts of T steps of B environments. Batches are moved to the
    device `learner`."""

    T = 16

    def __init__(self, capacity: int, B: int, n_step: int, prioritized: bool, device: str = "cpu", learner: str = ""):
        config = ReplayConfig(size=capacity, prioritized=prioritized, device=device)
        self.replay = config.build(PICTURES, B, NStep(n_step), learner or device, seed=0)
        self._rollout = made_up(PICTURES, self.T, B, learner or device)
        for _ in range(capacity // (self.T * B) + 1):
            self.append()
        self.bytes_each = self.ring_bytes / capacity

    @property
    def ring_bytes(self) -> int:
        tree = getattr(self.replay.selection, "tree", None)
        return self.replay.ring.nbytes + (sum(level.nbytes for level in tree.levels) if tree is not None else 0)

    def append(self) -> int:
        self.replay.append(self._rollout)
        return self._rollout.action.numel()

    def sample(self, N: int) -> Any:
        return self.replay.sample(N)

    def sample_and_update(self, N: int) -> None:
        self.replay.update(self.sample(N), errors(N, self.replay.device))


class StepByStep(Ours):
    """accel_rl.ReplayBuffer, which is filled step by step with complete stacks of B environments."""

    def __init__(self, capacity: int, B: int, n_step: int, prioritized: bool):
        space = gymnasium.spaces.Box(0, 255, (STACK, H, W), np.uint8)
        self._buffer = ReplayBuffer(space, 6, capacity, B, stack=STACK, n_step=n_step, prioritized=prioritized)
        rng = np.random.default_rng(0)
        frames = rng.integers(0, 256, (EPISODE + STACK, B, H, W), dtype=np.uint8)
        frames[: STACK - 1] = 0
        self._obs = [np.stack(list(frames[t : t + STACK]), 1) for t in range(EPISODE + 1)]
        self._B, self._t, self.replay = B, 0, self._buffer.replay
        for _ in range(capacity // B + 1):
            self.append()
        self.bytes_each = self.ring_bytes / capacity

    def append(self) -> int:
        """Append the next step of every environment. Every EPISODE steps, one more step only resets the
        environments."""
        t, no = self._t, np.zeros(self._B, bool)
        ended = np.full(self._B, t == EPISODE - 1)
        self._buffer.add(self._obs[t], np.zeros(self._B, np.int64), np.ones(self._B), ended, no)
        self._t = (t + 1) % (EPISODE + 1)
        return self._B

    def sample(self, N: int) -> Any:
        return self._buffer.sample(N)


@functools.cache
def errors(N: int, device: torch.device) -> torch.Tensor:
    """Return random priorities [N] as a tensor on a device."""
    return torch.from_numpy(priorities(N)).to(device)


def made_up(spec: EnvSpec, T: int, B: int, device: str) -> Rollout:
    """Return a rollout with random frames, in which episodes have EPISODE steps on average."""
    g = torch.Generator().manual_seed(0)
    shape = (spec.stack - 1 + T + 1, B, *spec.frame_shape)
    pixels = partial(torch.randint, 0, 256, dtype=torch.uint8) if spec.is_image else torch.randn
    frames = pixels(shape, generator=g)
    ended = torch.rand(T, B, generator=g) < 1 / EPISODE
    age = torch.full((T + 1, B), spec.oldest, dtype=torch.uint8)
    age[1:][ended] = 0
    no = torch.zeros_like(ended)
    host = Rollout(
        frames, frames[spec.stack :], age, torch.randint(0, 6, (T, B), generator=g), torch.ones(T, B), ended, no, ended,
        ~no, spec.stack,
    )  # fmt: skip
    if device == "cpu":
        return host
    rollout = copy.copy(host)
    for name in Rollout.__slots__:
        value = getattr(host, name)
        if isinstance(value, torch.Tensor):
            setattr(rollout, name, value.to(device))
    rollout.host = host
    return rollout


@functools.lru_cache(maxsize=1)
def replays(o: Options, kind: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Build and fill the uniform or prioritized replays of accel_rl and of installed packages. Return ({name: replay},
    {omitted replay: reason})."""
    prioritized = kind == "prioritized"
    by_name: dict[str, Any] = {OURS: Ours(o.capacity, o.simulators, o.n_step, prioritized)}
    by_name[f"{OURS} step by step"] = StepByStep(o.capacity, o.simulators, o.n_step, prioritized)
    left_out: dict[str, str] = {}
    if hardware.gpu_count():
        by_name[f"{OURS} on cuda"] = Ours(o.capacity, o.simulators, o.n_step, prioritized, "cuda")
    for name in o.peers:
        peer = PEERS[name]
        if kind not in peer.kinds:
            continue
        try:
            if importlib.util.find_spec(peer.package) is None:
                raise RuntimeError(f"not installed (pip install {peer.package.replace('_', '-')})")
            by_name[name] = peer(o.capacity, o.simulators, prioritized, np.random.default_rng(0))
        except RuntimeError as e:  # TorchRL, for example, fails with an unsuitable release of torch.
            left_out[name] = " ".join(str(e).split())
            print(f"left out: {name}, {kind}: {left_out[name]}", file=sys.stderr)
    return by_name, left_out


def case(o: Options, kind: str, N: int | None, stack: ExitStack) -> Case:
    """Build the measurements of appends if N is None, and otherwise of draws of N transitions (with new priorities in
    prioritized replays)."""
    torch.set_num_threads(o.threads or len(hardware.allowed_cores()))
    by_name, left_out = replays(o, kind)
    variants: dict[str, Callable[[float], float]] = {}
    for name, replay in by_name.items():
        work = replay.append if N is None else partial(drawing, replay, kind, N)
        device = "cuda" if name.endswith("cuda") else "cpu"
        work()
        variants[name] = partial(rate, work, device=device)
    sizes = {name: replay.bytes_each for name, replay in by_name.items()}
    labels = {"kind": kind, "work": "append" if N is None else f"sample {N}"}
    return Case(labels, variants, columns=lambda _: {"bytes": sizes}, left_out=left_out)


def drawing(replay: Any, kind: str, N: int) -> int:
    """Draw a batch of N transitions, and return N."""
    (replay.sample_and_update if kind == "prioritized" else replay.sample)(N)
    return N


def cases(o: Options) -> list[Build]:
    return [partial(case, o, kind, N) for kind in KINDS for N in (None, *o.batch)]


def lines(o: Options, result: dict[str, Any]) -> list[str]:
    return ["", f"the bound on bytes of a transition is {1.02 * (H * W + 16):,.0f}"]


main = Benchmark("replay", __doc__, Options, cases, "transitions/s", lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
