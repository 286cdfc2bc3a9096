"""Measures an upper bound of sampling: one process per core steps the environments without a sampler.

For each number of seconds on stdin, the process `python -m benchmarks.harness.bare CONFIG_JSON` measures for this time,
and writes [agent steps, seconds] to stdout (see benchmarks/harness/served.py).
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from accel_rl.processes import child
from benchmarks.harness.served import Served


def serve(config: dict[str, Any]) -> None:
    """For each number of seconds on stdin, step the environments for this time and print the result."""
    import numpy as np

    from accel_rl.data.rollout_arrays import Step
    from accel_rl.envs.make import ResolvedEnv, make_batch
    from accel_rl.machine.hardware import pin

    pin([config["core"]])
    batch = make_batch(ResolvedEnv(**config["env"]), config["seeds"], training=True)
    out = Step.empty(batch.n, batch.spec)
    batch.reset(out)
    actions = np.random.default_rng(0).integers(batch.spec.n_actions, size=(4096, batch.n))
    print("ready", flush=True)
    for line in sys.stdin:
        i, begin, seconds = 0, time.perf_counter(), float(line)
        while (took := time.perf_counter() - begin) < seconds:
            batch.send(actions[i & 4095])
            batch.recv(out)
            i += 1
        print(json.dumps([i * batch.n, took]), flush=True)


class Bare:
    """One process per core that steps environments without a sampler."""

    def __init__(self, env: dict[str, Any], cores: Sequence[int], envs_per_core: int = 4):
        self.cores = len(cores)
        environment = child.environment(packages=["benchmarks"])
        self._processes = []
        for i, core in enumerate(cores):
            seeds = list(range(1000 * i, 1000 * i + envs_per_core))
            command = child.command("benchmarks.harness.bare", json.dumps({"env": env, "core": core, "seeds": seeds}))
            self._processes.append(Served("bare environments", command, environment))

    def measure(self, seconds: float) -> float:
        """Measure the sum of the agent steps/s of all cores."""
        for process in self._processes:
            process.send(seconds)
        answers = [process.receive() for process in self._processes]
        return sum(steps / took for steps, took in answers)

    def close(self) -> None:
        for process in self._processes:
            process.close()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
