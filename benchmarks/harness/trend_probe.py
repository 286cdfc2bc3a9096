"""`python trend_probe.py GAMES SECONDS TURNS` prints, as JSON, the speed of the accel_rl on PYTHONPATH divided by that
of AtariVectorEnv. The script calls only functions that exist in all commits since 2026-11-25."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ENVS, HORIZON = 16, 20


def rate(work: Callable[[], int], seconds: float) -> float:
    """Measure env steps per second of CPU time of this process and its worker processes. Other programs on the machine
    hardly affect CPU time."""
    work()
    steps, began, used = 0, time.perf_counter(), cpu_s()
    while time.perf_counter() - began < seconds:
        steps += work()
    return steps / (cpu_s() - used)


def cpu_s() -> float:
    import psutil

    times = [p.cpu_times() for p in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(t.user + t.system for t in times)


def stepping(envs: Any) -> Callable[[], int]:
    import numpy as np

    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(64, ENVS))

    def step() -> int:
        for a in actions:
            envs.step(a)
        return len(actions) * ENVS

    return step


def ratios(game: str, seconds: float, turns: int) -> dict[str, float]:
    """Return the env steps/s of VectorEnv and of A2C's sampler, divided by those of AtariVectorEnv. Each ratio is the
    median over turns."""
    from ale_py.vector_env import AtariVectorEnv

    import accel_rl
    from accel_rl.emulator import VectorEnv

    try:  # Newer commits translate and compile the game's ROM: do this before the measurement.
        from accel_rl.emulator.translation import translate
    except ImportError:
        pass
    else:
        translate(game)
    with accel_rl.make_sampler("a2c", policy=None, game=game, envs=ENVS, horizon=HORIZON) as sampler:
        peer, ours = AtariVectorEnv(game, ENVS), VectorEnv(game, ENVS)
        work = {"peer": stepping(peer), "VectorEnv": stepping(ours), "sampling": lambda: sampler.collect().env_steps}
        rates: dict[str, list[float]] = {"VectorEnv": [], "sampling": []}
        for _ in range(turns):
            turn = {name: rate(act, seconds) for name, act in work.items()}
            for name, values in rates.items():
                values.append(turn[name] / turn["peer"])
        ours.close()
        peer.close()
    return {f"{name}, {game}": round(statistics.median(values), 3) for name, values in rates.items()}


if __name__ == "__main__":
    result: dict[str, float] = {}
    for name in sys.argv[1].split(","):
        result |= ratios(name, float(sys.argv[2]), int(sys.argv[3]))
    print("ratios", json.dumps(result), flush=True)
