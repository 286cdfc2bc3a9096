"""Emulation without a sampler, a process on each core: the upper bounds of sampling.

    ale_act_only      ale-py's `act` four times; no screen is read and no picture is made
    environment_only  the environments that the sampler uses: emulation, screen reads, preprocessing, resets

`python -m benchmarks.bare CONFIG_JSON` is one such process. It prints "ready" and waits for a line such as
"environment_only 4.0". It steps for that many seconds and prints agent steps, seconds and seconds of CPU time. `Bare`
runs one process on each core at the same time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable

from accel_rl.system import child

KINDS = ("ale_act_only", "environment_only")


def environments(config: dict) -> Callable[[int], int]:
    """Return a function that makes one agent step of the next environment, or of all if a batch steps in one call.

    The function returns the number of agent steps.
    """
    import numpy as np

    from accel_rl.data.rollout_arrays import Step
    from accel_rl.envs.make import ResolvedEnv, make_batch, make_env

    if config["env"]["backend"] == "emulator":
        batch = make_batch(ResolvedEnv(**config["env"]), config["seeds"], training=True)
        out = Step.empty(batch.n, batch.spec)
        batch.reset(out)
        rows = np.random.default_rng(0).integers(batch.spec.n_actions, size=(4096, batch.n))

        def step_all(i: int) -> int:
            batch.send(rows[i & 4095])
            batch.recv(out)
            return batch.n

        return step_all
    envs = [make_env(ResolvedEnv(**config["env"]), seed, training=True) for seed in config["seeds"]]
    frames = [np.zeros(envs[0].spec.frame_shape, envs[0].spec.frame_dtype) for _ in envs]
    for env, frame in zip(envs, frames, strict=True):
        env.reset(frame)
    actions = np.random.default_rng(0).integers(envs[0].spec.n_actions, size=4096).tolist()

    def step(i: int) -> int:
        env, frame = envs[i % len(envs)], frames[i % len(envs)]
        if env.step(actions[i & 4095], frame)[3]:
            env.reset(frame)
        return 1

    return step


def emulators(config: dict) -> Callable[[int], int]:
    """Return such a function for ale-py alone: four frames with one action, no screen."""
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


def one(config: dict) -> None:
    from accel_rl.system.hardware import pin

    pin([config["core"]])
    steps_of = {"ale_act_only": emulators(config), "environment_only": environments(config)}
    print("ready", flush=True)
    for line in sys.stdin:
        kind, duration = line.split()
        step, seconds, n, i, clock = steps_of[kind], float(duration), 0, 0, time.perf_counter
        begin, cpu = clock(), time.process_time()
        while clock() - begin < seconds:
            n += step(i) + step(i + 1) + step(i + 2) + step(i + 3)
            i += 4
        print(json.dumps([n, clock() - begin, time.process_time() - cpu]), flush=True)


class Bare:
    """A process on each core, started once and measured any number of times."""

    def __init__(self, env: dict, cores: list[int], envs_per_core: int = 4):
        self.cores = len(cores)
        self.reset_clocks()
        self._processes = []
        for i, core in enumerate(cores):
            seeds = list(range(1000 * i, 1000 * i + envs_per_core))
            text = json.dumps({"env": env, "core": core, "seeds": seeds})
            self._processes.append(
                subprocess.Popen(
                    child.command("benchmarks.bare", text),
                    env=child.environment(packages=["benchmarks"]),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for p in self._processes:
            assert p.stdout is not None and p.stdout.readline().strip() == "ready"

    def reset_clocks(self) -> None:
        self.cpu_us: dict[str, list[float]] = {
            kind: [] for kind in KINDS
        }  # CPU time of an agent step in each measurement

    def measure(self, seconds: float, kind: str = "environment_only") -> float:
        """Measure agent steps/s of all cores together."""
        assert kind in KINDS
        for p in self._processes:
            assert p.stdin is not None
            p.stdin.write(f"{kind} {seconds}\n")
            p.stdin.flush()
        answers = [json.loads(p.stdout.readline()) for p in self._processes if p.stdout is not None]
        self.cpu_us[kind].append(sum(cpu for _, _, cpu in answers) / sum(steps for steps, _, _ in answers) * 1e6)
        return sum(steps / took for steps, took, _ in answers)

    def close(self) -> None:
        for p in self._processes:
            assert p.stdin is not None
            p.stdin.close()
            p.kill()  # there is nothing to clean up
            p.wait()


if __name__ == "__main__":
    one(json.loads(sys.argv[1]))
