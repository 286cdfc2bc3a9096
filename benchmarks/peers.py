"""Compares the speed of accel_rl's sampler with that of other packages' vector environments. The command is `python -m
benchmarks.peers --games breakout pong --json OUT`.

The vector environments are ale-py's AtariVectorEnv (step; send/recv), EnvPool (sync; async), Gymnasium's AsyncVectorEnv
and SB3's SubprocVecEnv, which are measured in turns with the sampler. All vector environments play the same game with
frame skip 4 and pictures of 104x80. Actions are random, or come from A3C-Net with the same weights (for other packages
by eager torch). Packages that are not installed are listed and omitted.
"""

import importlib.util
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from accel_rl.agents.agent import Agent
from accel_rl.emulator.translation import translate
from accel_rl.machine.hardware import free_memory
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text.counts import Count, OptionalCount
from accel_rl.text.errors import ConfigError
from benchmarks.harness import program
from benchmarks.harness.agents import NAMES, NETS, make_agent
from benchmarks.harness.peer_envs import PEERS, Act, Peer, Shape
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.sampling import Sampling, cores_of, sampling_config

ALL = tuple(p.name for p in PEERS)
PROCESS_BYTES = 180 * 2**20


@dataclass(frozen=True)
class Options(program.Options):
    games: tuple[str, ...] = ("breakout",)
    """Atari games."""
    peers: tuple[str, ...] = ALL
    """Vector environments of other packages that are measured."""
    nets: tuple[str, ...] = ("none", "a3c")
    """Networks that act: none (random actions), a3c, dqn."""
    workers: OptionalCount = None
    """Number of worker processes of accel_rl and of threads of the peers, by default one per usable core."""
    envs_per_worker: Count = 32
    """Number of environments of each worker. Peers that step a batch by one object have the same total."""
    process_envs: Count = 16
    """Number of environments of peers with a process for each environment (about 180 MB each)."""
    horizon: Count = 20
    """Number of steps per rollout of accel_rl."""
    reset: str = "immediate"
    """Value of --sampler.reset of accel_rl: immediate, wait, swap or cached."""
    backend: str = "auto"
    """Emulator of accel_rl: auto, ale or emulator."""
    seconds: float = 4.0
    """Length of one measurement in seconds."""

    TINY: ClassVar[dict[str, Any]] = {"envs_per_worker": 2, "process_envs": 2, "horizon": 2}

    def check(self) -> None:
        super().check()
        self.at_least(1, "workers", "envs_per_worker", "process_envs", "horizon")
        self.one_of("peers", ALL)
        needed, free = self.process_envs * PROCESS_BYTES, free_memory()
        if needed > free and any(not peer.batched for peer in PEERS if peer.name in self.peers):
            text = f"{needed / 2**30:.0f} GiB are needed, {free / 2**30:.0f} GiB are free"
            raise ConfigError(f"--process-envs {self.process_envs}: {text}")
        self.one_of("nets", NETS)
        for game in self.games:
            resolve(self.config(game))
        if not (self.games and self.nets):
            raise ConfigError("--games and --nets: at least one of each")

    def config(self, game: str) -> TrainConfig:
        return sampling_config(
            game, self.envs_per_worker, self.workers, horizon=self.horizon, reset=self.reset, backend=self.backend
        )


def installed(o: Options) -> list[type[Peer]]:
    """Return the installed vector environments, and print the names of missing packages."""
    wanted = [peer for peer in PEERS if peer.name in o.peers]
    missing = [peer for peer in wanted if importlib.util.find_spec(peer.package) is None]
    for package in dict.fromkeys(peer.install for peer in missing):
        names = ", ".join(peer.name for peer in missing if peer.install == package)
        print(f"left out: {names}, not installed (pip install {package})", file=sys.stderr)
    return [peer for peer in wanted if peer not in missing]


def acting(agent: Agent) -> Act:
    """Return a function that maps numpy stacks of observations to an agent's actions."""

    def act(obs: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(np.require(obs, requirements=["C", "W"]))
        return agent.act(batch, torch.rand(len(obs)))[0].numpy()

    return act


def case(o: Options, peers: list[type[Peer]], game: str, net: str, stack: ExitStack) -> Case:
    """Build the measurements of accel_rl's sampler and of other packages' vector environments for one game."""
    translate(game)  # The ROM must not be compiled during the measurement.
    ours = Sampling(o.config(game))
    stack.callback(ours.close)
    agent = make_agent(net, ours.spec)
    ours.collect(agent)
    shape = Shape(game, ours.grouping.B, o.process_envs, len(cores_of(ours.placement)), *ours.spec.frame_shape)
    variants: dict[str, Any] = {"accel_rl": partial(ours.free, agent)}
    envs = {"accel_rl": ours.grouping.B}
    failed: dict[str, str] = {}
    for make in peers:
        try:
            peer = make(shape)
        except Exception as e:
            failed[make.name] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
            print(f"left out: {make.name} on {game}: {failed[make.name]}", file=sys.stderr)
            continue
        stack.callback(peer.close)
        variants[peer.name] = partial(peer.measure, None if net == "none" else acting(agent))
        envs[peer.name] = peer.n
    labels = {"game": game, "actions": NAMES[net]}
    return Case(labels, variants, columns=lambda _: {"environments": envs}, left_out=failed)


def cases(o: Options) -> list[Build]:
    peers = installed(o)
    return [partial(case, o, peers, game, net) for game in o.games for net in o.nets]


main = Benchmark("peers", __doc__, Options, cases).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
