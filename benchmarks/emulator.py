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
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.make import EnvConfig, make_batch, resolve_env
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError, nearest
from benchmarks.emulator_trace import chosen
from benchmarks.peer_envs import EnvPool, Shape
from benchmarks.program import program

Play = Callable[[int], None]


def ours(game: str, envs: int, frame: str, backend: str, fast: bool = True) -> Play:
    """Return a function that plays a batch of our emulator, with resets, for some steps."""
    config = EnvConfig(game=game, protocol="mnih2015", frame=frame, life_loss_ends_return=False, backend=backend)
    batch = make_batch(resolve_env(config), list(range(envs)), training=True)
    for env in batch.envs if not fast else []:
        env.core.set_fast(False)  # type: ignore[attr-defined]
    out, rng = Step.empty(envs, batch.spec), np.random.default_rng(0)
    batch.reset(out)

    def play(steps: int) -> None:
        for action in rng.integers(batch.spec.n_actions, size=(steps, envs)):
            batch.send(action)
            batch.recv(out)

    return play


def vector(game: str, envs: int) -> Play:
    from ale_py import ALEInterface, LoggerMode
    from ale_py.vector_env import AtariVectorEnv

    ALEInterface.setLoggerMode(LoggerMode.Error)
    env = AtariVectorEnv(
        game, num_envs=envs, num_threads=1, episodic_life=False, use_fire_reset=False, reward_clipping=False
    )
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def play(steps: int) -> None:
        for action in rng.integers(env.single_action_space.n, size=(steps, envs)):  # type: ignore[attr-defined]
            env.step(action)

    return play


def envpool(game: str, envs: int) -> Play:
    peer = EnvPool(Shape(game, envs, envs, cores=1, height=84, width=84))
    rng = np.random.default_rng(0)

    def play(steps: int) -> None:
        for action in rng.integers(peer.n_actions(), size=(steps, envs)):
            peer.step(action)

    return play


MAKE: dict[str, Callable[[str, int], Play]] = {
    "fast": lambda game, envs: ours(game, envs, "84x84", "emulator"),
    "fast 104x80": lambda game, envs: ours(game, envs, "104x80", "emulator"),
    "plain": lambda game, envs: ours(game, envs, "84x84", "emulator", fast=False),
    "ale": lambda game, envs: ours(game, envs, "84x84", "ale"),
    "vector": vector,
    "envpool": envpool,
}


def speeds_of(game: str, names: list[str], envs: int, steps: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure frames/s of each machine, and its ratio to `vector`."""
    plays = {name: MAKE[name](game, envs) for name in names}
    for play in plays.values():
        play(10)
    speeds: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(rounds):
        for name, play in plays.items():
            start = time.process_time()
            play(steps)
            speeds[name].append(4 * envs * steps / (time.process_time() - start))
    return {
        name: {
            "frames_per_s": statistics.median(speed),
            "ratio": statistics.median(s / v for s, v in zip(speed, speeds["vector"], strict=True)),
        }
        for name, speed in speeds.items()
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


def check(o: Options) -> None:
    chosen(o.games)
    for name in o.machines:
        if name not in MAKE:
            raise ConfigError(f"--machines {name}: one of {', '.join(MAKE)}{nearest(name, list(MAKE))}")
        if name not in installed():
            raise ConfigError(f"--machines {name}: not installed (pip install {name})")


def installed() -> list[str]:
    return [name for name in MAKE if name != "envpool" or importlib.util.find_spec(name)]


def measure(o: Options) -> dict[str, Any]:
    names = [name for name in installed() if name == "vector" or name in (o.machines or installed())]
    rows = {}
    for game in chosen(o.games):
        rows[game] = row = speeds_of(game, names, o.envs, o.steps, o.rounds)
        text = "  ".join(f"{name} {row[name]['frames_per_s']:7.0f} ({row[name]['ratio']:.2f})" for name in names)
        print(f"{game:18} {text}", flush=True)
    return {"games": rows}


def report(_: Options, result: dict[str, Any]) -> list[str]:
    rows, lines = result["games"], []
    for name in next(iter(rows.values())):
        ratios = sorted((row[name]["ratio"], game) for game, row in rows.items())
        least = ", ".join(f"{game} {ratio:.2f}" for ratio, game in ratios[:3])
        median = statistics.median(ratio for ratio, _ in ratios)
        frames = statistics.median(row[name]["frames_per_s"] for row in rows.values())
        lines.append(f"{name:12} median {frames:8,.0f} frames/s, {median:5.2f} x vector; least: {least}")
    return lines


def main(argv: list[str]) -> int:
    return program("emulator", __doc__, Options, argv, check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
