"""Emulation without a sampler, a process on each core: the upper bounds of sampling.

    ale_act_only      ale-py's `act` four times; no screen is read and no frame is preprocessed
    environment_only  the environments that the sampler uses: emulation, screen reads, preprocessing, resets

`python -m benchmarks.harness.bare CONFIG_JSON` is one such process, see benchmarks/harness/served.py. A request is a
kind and seconds; the answer is [agent steps, seconds].
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from accel_rl.system import child
from benchmarks.harness.served import Served

KINDS = ("ale_act_only", "environment_only")
Step = Callable[[int], int]
"""Makes the i-th agent step of one environment, or of a batch; returns the number of agent steps."""


def environments(config: dict[str, Any]) -> Step:
    """Return the steps of the sampler's environments, with resets."""
    import numpy as np

    from accel_rl.data import rollout_arrays
    from accel_rl.envs.make import EnvConfig, make_batch, make_env

    env, rng = EnvConfig(**config["env"]), np.random.default_rng(0)
    if env.backend == "emulator":
        batch = make_batch(env, config["seeds"], training=True)
        out = rollout_arrays.Step.empty(batch.n, batch.spec)
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


def emulators(config: dict[str, Any]) -> Step:
    """Return the steps of ale-py alone: four frames with one action, no screen."""
    import numpy as np
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ales = []
    for _ in config["seeds"]:
        ale = ALEInterface()
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(roms.get_rom_path(config["env"]["game"]))
        ale.reset_game()
        ales.append((ale, ale.act, ale.game_over))
    codes = [a.value for a in ales[0][0].getMinimalActionSet()]
    actions = np.random.default_rng(0).choice(codes, size=4096).tolist()

    def step(i: int) -> int:
        ale, act, over = ales[i % len(ales)]
        code = actions[i & 4095]
        act(code), act(code), act(code), act(code)
        if over():
            ale.reset_game()
        return 1

    return step


def serve(config: dict[str, Any]) -> None:
    """Answer requests until stdin ends."""
    from accel_rl.system.hardware import pin

    pin([config["core"]])
    steps_of = {"ale_act_only": emulators(config), "environment_only": environments(config)}
    print("ready", flush=True)
    for line in sys.stdin:
        kind, duration = line.split()
        step, seconds, clock = steps_of[kind], float(duration), time.perf_counter
        n, i, begin = 0, 0, clock()
        while clock() - begin < seconds:
            n += step(i) + step(i + 1) + step(i + 2) + step(i + 3)
            i += 4
        print(json.dumps([n, clock() - begin]), flush=True)


class Bare:
    """A process on each core, started once and measured any number of times."""

    def __init__(self, env: dict[str, Any], cores: Sequence[int], envs_per_core: int = 4):
        self.cores = len(cores)
        environment = child.environment(packages=["benchmarks"])
        self._processes: list[Served] = []
        for i, core in enumerate(cores):
            seeds = list(range(1000 * i, 1000 * i + envs_per_core))
            text = json.dumps({"env": env, "core": core, "seeds": seeds})
            command = child.command("benchmarks.harness.bare", text)
            self._processes.append(Served("bare environments", command, environment))

    def measure(self, seconds: float, kind: str = "environment_only") -> float:
        """Measure agent steps/s of all cores together."""
        for process in self._processes:
            process.send(kind, seconds)
        answers = [process.receive() for process in self._processes]
        return sum(steps / took for steps, took in answers)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
