"""Compares the speed of Atari games on one core: accel_rl's emulator, its plain C++ core, ale-py, AtariVectorEnv and
EnvPool.

    | python -m benchmarks.emulator --json OUT [--games all57] [--envs 4] [--repeats 5] [--machines fast]

    | fast     EmulatorBatch: frame skip 4, 84x84                fast 104x80   the same with every second pixel
    | plain    the same by the plain core                        ale           AtariEnv, one after another in Python
    | vector   AtariVectorEnv, one thread, as many environments  envpool       EnvPool likewise, if it is installed

All emulators are measured in turns, with random actions and including resets. Speed is in frames (4 per step) per
second of the process's CPU time.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.emulator.translation import translate
from accel_rl.envs.make import EnvConfig, make_batch, resolve_env
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness import program
from benchmarks.harness.games import chosen
from benchmarks.harness.peer_envs import AleVector, EnvPool, Peer, Shape
from benchmarks.harness.program import Benchmark, Build, Case

Act = Callable[[np.ndarray], Any]
"""A function that steps a batch of environments with actions [envs]."""
VECTOR = "vector"
STEPS = 16  # The CPU clock is read every 16 steps.


def ours(frame: str, backend: str, game: str, envs: int, fast: bool = True) -> tuple[Act, int]:
    """Return a function that steps a batch of accel_rl's environments, including resets, and the number of actions."""
    config = EnvConfig(game=game, protocol="mnih2015", frame=frame, life_loss_ends_return=False, backend=backend)
    batch = make_batch(resolve_env(config), list(range(envs)), training=True)
    for env in batch.envs if not fast else []:
        env.core.set_fast(False)  # type: ignore[attr-defined]
    out = Step.empty(envs, batch.spec)
    batch.reset(out)

    def act(action: np.ndarray) -> None:
        batch.send(action)
        batch.recv(out)

    return act, batch.spec.n_actions


def peer(make: type[Peer], game: str, envs: int) -> tuple[Act, int]:
    """Return a function that steps another package's vector environment on one thread, and the number of actions."""
    env = make(Shape(game, envs, envs, cores=1, height=84, width=84))
    return env.step, env.n_actions()


MAKE: dict[str, Callable[[str, int], tuple[Act, int]]] = {
    "fast": partial(ours, "84x84", "emulator"),
    "fast 104x80": partial(ours, "104x80", "emulator"),
    "plain": partial(ours, "84x84", "emulator", fast=False),
    "ale": partial(ours, "84x84", "ale"),
    VECTOR: partial(peer, AleVector),
    "envpool": partial(peer, EnvPool),
}


def installed() -> list[str]:
    """Return the names of the emulators that can be measured on this machine."""
    return [name for name in MAKE if name != "envpool" or importlib.util.find_spec(name)]


@dataclass(frozen=True)
class Options(program.Options):
    games: tuple[str, ...] = ("all57",)
    """Games to measure: all57, all, or names."""
    envs: Count = 4
    """Number of environments of a batch."""
    machines: tuple[str, ...] = ()
    """Emulators that are measured in addition to `vector`: fast, "fast 104x80", plain, ale, envpool; by default all
    installed ones."""

    TINY: ClassVar[dict[str, Any]] = {"games": ("pong",)}

    def check(self) -> None:
        super().check()
        chosen(self.games)
        self.one_of("machines", tuple(MAKE))
        for name in set(self.machines) - set(installed()):
            raise ConfigError(f"--machines {name}: not installed (pip install {name})")


def frames_per_s(act: Act, actions: np.ndarray, seconds: float) -> float:
    """Measure emulated frames per second of CPU time. `actions` [steps, envs] are played again and again."""
    frames, start = 0, time.process_time()
    while (used := time.process_time() - start) < seconds:
        for action in actions:
            act(action)
        frames += 4 * actions.size
    return frames / used


def case(o: Options, game: str, stack: ExitStack) -> Case:
    """Build the measurements of all emulators for one game."""
    translate(game)  # The ROM must not be compiled during the measurement.
    variants = {}
    for name in installed():
        if name == VECTOR or name in (o.machines or installed()):
            act, n_actions = MAKE[name](game, o.envs)
            actions = np.random.default_rng(0).integers(n_actions, size=(STEPS, o.envs))
            variants[name] = partial(frames_per_s, act, actions)
            variants[name](0.01)
    return Case({"game": game}, variants, subject=VECTOR)


def cases(o: Options) -> list[Build]:
    return [partial(case, o, game) for game in chosen(o.games)]


def lines(_: Options, result: dict[str, Any]) -> list[str]:
    """Return one line of text per emulator: the median over games of its speed divided by that of AtariVectorEnv, and
    the games with the smallest ratios."""
    results, text = result["results"], [""]
    for name in results[0]["ratios"]:
        ratios = sorted((1 / r["ratios"][name]["median_by_turn"], r["game"]) for r in results)
        least = ", ".join(f"{game} {value:.2f}" for value, game in ratios[:3])
        median = statistics.median(value for value, _ in ratios)
        frames = statistics.median(r["median"][name] for r in results)
        text.append(f"{name:12} median {frames:8,.0f} frames/s, {median:5.2f} x vector; least: {least}")
    return text


main = Benchmark("emulator", __doc__, Options, cases, "frames/s", lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
