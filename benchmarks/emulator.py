"""Speed of agent steps on one core, per game: the emulator, its plain core, ale-py, AtariVectorEnv and EnvPool.

    python -m benchmarks.emulator --json OUT [--games all57] [--envs 4] [--steps 60] [--rounds 5] [--machines fast]

    fast     EmulatorBatch: frame skip 4, 84x84                fast 104x80   the same with every second pixel
    plain    the same by the plain core                        ale           AtariEnv, one after another in Python
    vector   AtariVectorEnv, one thread, as many environments  envpool       EnvPool likewise, if it is installed

All take turns, round by round, with random actions; resets count. Speed is in frames (4 per step) per second of the
process's CPU time, the median of the rounds. A ratio is the median of the rounds' ratios to `vector`.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.make import EnvConfig, make_batch
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError, nearest
from benchmarks.emulator_trace import chosen
from benchmarks.harness.peer_envs import AleVector, EnvPool, Peer, Shape
from benchmarks.harness.program import program
from benchmarks.harness.turns import in_turns, medians, ratio

Play = Callable[[int], None]


def ours(frame: str, backend: str, game: str, envs: int, fast: bool = True) -> Play:
    """Return a function that plays a batch of our emulator, with resets, for some steps."""
    config = EnvConfig(game=game, protocol="mnih2015", frame=frame, life_loss_ends_return=False, backend=backend)
    batch = make_batch(config, list(range(envs)), training=True)
    for env in batch.envs if not fast else []:
        env.core.set_fast(False)  # type: ignore[attr-defined]
    out, rng = Step.empty(envs, batch.spec), np.random.default_rng(0)
    batch.reset(out)

    def play(steps: int) -> None:
        for action in rng.integers(batch.spec.n_actions, size=(steps, envs)):
            batch.send(action)
            batch.recv(out)

    return play


def peer(make: type[Peer], game: str, envs: int) -> Play:
    """Return a function that plays a vector environment of another package on one thread."""
    env = make(Shape(game, envs, envs, cores=1, height=84, width=84))
    rng = np.random.default_rng(0)

    def play(steps: int) -> None:
        for action in rng.integers(env.n_actions(), size=(steps, envs)):
            env.step(action)

    return play


MAKE: dict[str, Callable[[str, int], Play]] = {
    "fast": partial(ours, "84x84", "emulator"),
    "fast 104x80": partial(ours, "104x80", "emulator"),
    "plain": partial(ours, "84x84", "emulator", fast=False),
    "ale": partial(ours, "84x84", "ale"),
    "vector": partial(peer, AleVector),
    "envpool": partial(peer, EnvPool),
}


def speeds_of(game: str, names: list[str], o: "Options") -> dict[str, dict[str, float]]:
    """Measure frames/s of each machine, and its ratio to `vector`."""
    plays = {name: MAKE[name](game, o.envs) for name in names}
    for play in plays.values():
        play(10)

    def turn(play: Play) -> float:
        start = time.process_time()
        play(o.steps)
        return 4 * o.envs * o.steps / (time.process_time() - start)

    speeds = in_turns({name: partial(turn, play) for name, play in plays.items()}, o.rounds, "frames/s", f"{game}, ")
    median = medians(speeds)
    return {
        name: {"frames_per_s": median[name], "ratio": ratio(speeds[name], speeds["vector"])["median_by_turn"]}
        for name in names
    }


@dataclass(frozen=True)
class Options:
    games: str = "all57"
    """all57, all, or names with commas."""
    envs: Count = 4
    """Number of environments of a batch."""
    steps: Count = 60
    """Agent steps of each environment in one turn."""
    rounds: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    machines: tuple[str, ...] = ()
    """Machines to measure in addition to `vector`: fast, "fast 104x80", plain, ale, envpool. Default: all installed."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        """Raise ConfigError, one line, for impossible options."""
        chosen(self.games)
        for name in self.machines:
            if name not in MAKE:
                raise ConfigError(f"--machines {name}: one of {', '.join(MAKE)}{nearest(name, list(MAKE))}")
            if name not in installed():
                raise ConfigError(f"--machines {name}: not installed (pip install {name})")


def installed() -> list[str]:
    """Return the machines that can be measured."""
    return [name for name in MAKE if name != "envpool" or importlib.util.find_spec(name)]


def measure(o: Options) -> dict[str, Any]:
    """Measure game by game, and print a line for each."""
    names = [name for name in installed() if name == "vector" or name in (o.machines or installed())]
    rows = {}
    for game in chosen(o.games):
        rows[game] = row = speeds_of(game, names, o)
        text = "  ".join(f"{name} {row[name]['frames_per_s']:7.0f} ({row[name]['ratio']:.2f})" for name in names)
        print(f"{game:18} {text}", flush=True)
    return {"games": rows}


def report(_: Options, result: dict[str, Any]) -> list[str]:
    """Return a line for each machine: median over the games, and the games with the least ratios."""
    rows, lines = result["games"], []
    for name in next(iter(rows.values())):
        ratios = sorted((row[name]["ratio"], game) for game, row in rows.items())
        least = ", ".join(f"{game} {value:.2f}" for value, game in ratios[:3])
        median = statistics.median(value for value, _ in ratios)
        frames = statistics.median(row[name]["frames_per_s"] for row in rows.values())
        lines.append(f"{name:12} median {frames:8,.0f} frames/s, {median:5.2f} x vector; least: {least}")
    return lines


def main(argv: list[str]) -> int:
    """python -m benchmarks.emulator [options]"""
    return program("emulator", __doc__, Options, argv, Options.check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
