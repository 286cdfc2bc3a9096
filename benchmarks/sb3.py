"""Stable-Baselines3 training in a separate process, without accel_rl's settings of torch and malloc.

python -m benchmarks.sb3 dqn breakout      then "train SECONDS" lines in, env steps/s out
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from accel_rl.system import child
from benchmarks.peer_envs import camel

SAMPLING = {
    "ppo": {"envs": 8, "horizon": 128},
    "a2c": {"envs": 16, "horizon": 5},
    "dqn": {"envs": 8, "horizon": 4},
    "c51": {"envs": 8, "horizon": 4},
}
ALGORITHMS = ("ppo", "a2c", "dqn")
DQN = {"batch_size": 32, "learning_rate": 1e-4, "size": 10_000, "start": 1_000, "intensity": 8}


@dataclass(frozen=True)
class Wrapped:
    """A picklable factory of one environment in SB3's Atari wrappers."""

    game: str

    def __call__(self) -> Any:
        import ale_py
        import gymnasium
        from stable_baselines3.common.atari_wrappers import AtariWrapper
        from stable_baselines3.common.monitor import Monitor

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
        env = gymnasium.make(f"ALE/{camel(self.game)}-v5", frameskip=1, repeat_action_probability=0.0)
        return AtariWrapper(Monitor(env))


def build(algorithm: str, game: str) -> tuple[Any, int]:
    """Build SB3 with its zoo's Atari settings: its wrappers, a process for each environment, a stack of four.

    Returns (model, env steps of one call to `learn`)."""
    from stable_baselines3 import A2C, PPO
    from stable_baselines3 import DQN as SB3DQN
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    s = SAMPLING[algorithm]
    env = VecFrameStack(SubprocVecEnv([Wrapped(game)] * s["envs"], start_method="spawn"), 4)
    common = {"env": env, "device": "cpu", "seed": 0}
    each = s["envs"] * s["horizon"]
    if algorithm == "ppo":
        return PPO("CnnPolicy", n_steps=s["horizon"], batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1,
                   vf_coef=0.5, ent_coef=0.01, **common), each  # fmt: skip
    if algorithm == "a2c":
        return A2C("CnnPolicy", n_steps=s["horizon"], vf_coef=0.25, ent_coef=0.01, **common), 16 * each
    updates = each * DQN["intensity"] // DQN["batch_size"]
    model = SB3DQN(
        "CnnPolicy", batch_size=DQN["batch_size"], learning_rate=DQN["learning_rate"], buffer_size=DQN["size"],
        learning_starts=0, train_freq=s["horizon"], gradient_steps=int(updates), target_update_interval=1_000,
        exploration_fraction=1e-6, exploration_final_eps=0.01, **common,
    )  # fmt: skip
    model.learn(each * 8)
    return model, 4 * each


def serve(algorithm: str, game: str) -> None:
    model, chunk = build(algorithm, game)
    model.learn(chunk, reset_num_timesteps=False)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, steps, begin = float(line.split()[1]), 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < seconds:
            model.learn(chunk, reset_num_timesteps=False)
            steps += chunk
        print(steps / took, flush=True)
    model.get_env().close()


class StableBaselines:
    """Client of the `serve` process."""

    name = "SB3"

    def __init__(self, algorithm: str, game: str):
        self._process = subprocess.Popen(
            child.command("benchmarks.sb3", algorithm, game),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=child.environment(packages=["benchmarks"]),
        )
        self._read()

    def train(self, seconds: float) -> float:
        """Measure whole calls to `learn`; returns env steps/s."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"train {seconds}\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            _, err = self._process.communicate()
            raise RuntimeError(f"SB3 ended: {(err.strip().splitlines() or ['without a word'])[-1]}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
