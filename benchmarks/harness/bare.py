"""The sampler's environments without a sampler, a process on each core: the upper bound of sampling.

They emulate, read screens, preprocess and reset. `python -m benchmarks.harness.bare CONFIG_JSON` is one such process,
see benchmarks/harness/served.py. A request is a number of seconds; the answer is [agent steps, seconds].
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from accel_rl.system import child
from benchmarks.harness.served import Served


def stepper(config: dict[str, Any]) -> Callable[[int], int]:
    """Return a function that makes the i-th step of one environment or of a batch; it returns the number of steps."""
    import numpy as np

    from accel_rl.data.rollout_arrays import Step
    from accel_rl.envs.make import EnvConfig, make_batch, make_env

    env, rng = EnvConfig(**config["env"]), np.random.default_rng(0)
    if env.backend == "emulator":
        batch = make_batch(env, config["seeds"], training=True)
        out = Step.empty(batch.n, batch.spec)
        batch.reset(out)
        rows = rng.integers(batch.spec.n_actions, size=(4096, batch.n))

        def step_all(i: int) -> int:
            batch.send(rows[i & 4095])
            batch.recv(out)
            return batch.n

        return step_all
    envs = [make_env(env, seed, training=True) for seed in config["seeds"]]
    frames = [np.zeros(e.spec.frame_shape, e.spec.frame_dtype) for e in envs]
    for e, frame in zip(envs, frames, strict=True):
        e.reset(frame)
    actions = rng.integers(envs[0].spec.n_actions, size=4096).tolist()

    def step(i: int) -> int:
        e, frame = envs[i % len(envs)], frames[i % len(envs)]
        if e.step(actions[i & 4095], frame)[3]:
            e.reset(frame)
        return 1

    return step


def serve(config: dict[str, Any]) -> None:
    """Answer requests until stdin ends."""
    from accel_rl.system.hardware import pin

    pin([config["core"]])
    step, clock = stepper(config), time.perf_counter
    print("ready", flush=True)
    for line in sys.stdin:
        n, i, begin, seconds = 0, 0, clock(), float(line)
        while clock() - begin < seconds:
            n += step(i) + step(i + 1) + step(i + 2) + step(i + 3)
            i += 4
        print(json.dumps([n, clock() - begin]), flush=True)


class Bare:
    """A process on each core, started once and measured any number of times."""

    def __init__(self, env: dict[str, Any], cores: Sequence[int], envs_per_core: int = 4):
        self.cores = len(cores)
        environment = child.environment(packages=["benchmarks"])
        self._processes = []
        for i, core in enumerate(cores):
            seeds = list(range(1000 * i, 1000 * i + envs_per_core))
            command = child.command("benchmarks.harness.bare", json.dumps({"env": env, "core": core, "seeds": seeds}))
            self._processes.append(Served("bare environments", command, environment))

    def measure(self, seconds: float) -> float:
        """Measure agent steps/s of all cores together."""
        for process in self._processes:
            process.send(seconds)
        answers = [process.receive() for process in self._processes]
        return sum(steps / took for steps, took in answers)

    def close(self) -> None:
        for process in self._processes:
            process.close()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
