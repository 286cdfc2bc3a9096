"""The ceiling: emulation with preprocessing and nothing else, one process per core.

`python -m benchmarks.bare CONFIG_JSON` is one such process: it says ready, waits for a line, steps for the given time
and prints how many agent steps it took. `measure` runs one on each core at once.
"""

import json
import subprocess
import sys
import time


def one(config: dict) -> None:
    import numpy as np

    from accel_rl.envs.make import EnvConfig, make_env
    from accel_rl.hardware import pin

    pin([config["core"]])
    envs = [make_env(EnvConfig(**config["env"]), seed, training=True) for seed in config["seeds"]]
    frames = [np.zeros(envs[0].spec.frame_shape, envs[0].spec.frame_dtype) for _ in envs]
    for env, frame in zip(envs, frames, strict=True):
        env.reset(frame)
    actions = np.random.default_rng(0).integers(envs[0].spec.n_actions, size=4096).tolist()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, steps, clock = float(line), 0, time.perf_counter
        begin = clock()
        while clock() - begin < seconds:
            for env, frame in zip(envs, frames, strict=True):
                steps += 1
                if env.step(actions[steps & 4095], frame)[3]:
                    env.reset(frame)
        print(json.dumps([steps, clock() - begin]), flush=True)


class Bare:
    """One process per core, started once and asked for as many measurements as wanted."""

    def __init__(self, env: dict, cores: list[int], envs_per_core: int):
        self._processes = []
        for i, core in enumerate(cores):
            seeds = list(range(1000 * i, 1000 * i + envs_per_core))
            text = json.dumps({"env": env, "core": core, "seeds": seeds})
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.bare", text],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for p in self._processes:
            assert p.stdout is not None and p.stdout.readline().strip() == "ready"

    def measure(self, seconds: float) -> float:
        """Agent steps/s of all cores together."""
        for p in self._processes:
            assert p.stdin is not None
            p.stdin.write(f"{seconds}\n")
            p.stdin.flush()
        total = 0.0
        for p in self._processes:
            assert p.stdout is not None
            steps, took = json.loads(p.stdout.readline())
            total += steps / took
        return total

    def close(self) -> None:
        for p in self._processes:
            assert p.stdin is not None
            p.stdin.close()
            p.wait(10)


if __name__ == "__main__":
    one(json.loads(sys.argv[1]))
