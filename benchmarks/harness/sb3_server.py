"""Measures training by Stable-Baselines3 in a separate process, which does not import accel_rl, so that any Python with
stable-baselines3 can run it:

    | python sb3_server.py '{"algorithm": "a2c", "game": "Breakout", "envs": 16, "horizon": 5, "dqn": {}}'

Each request on stdin is a number of seconds, and the answer on stdout is env steps/s (see served.py).
"""

import json
import sys
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wrapped:
    """A picklable function that builds one environment with SB3's Atari wrappers. `game` is a name such as
    SpaceInvaders."""

    game: str

    def __call__(self) -> Any:
        import ale_py
        import gymnasium
        from stable_baselines3.common.atari_wrappers import AtariWrapper
        from stable_baselines3.common.monitor import Monitor

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
        env = gymnasium.make(f"ALE/{self.game}-v5", frameskip=1, repeat_action_probability=0.0)
        return AtariWrapper(Monitor(env))


def build(s: dict[str, Any]) -> tuple[Any, int]:
    """Build a model of SB3 with the settings of RL Zoo for Atari: SB3's wrappers, one process per environment, and a
    stack of four frames. Return (model, env steps of one call of `learn`)."""
    from stable_baselines3 import A2C, DQN, PPO
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    env = VecFrameStack(SubprocVecEnv([Wrapped(s["game"])] * s["envs"], start_method="spawn"), 4)
    common, each = {"env": env, "device": "cpu", "seed": 0}, s["envs"] * s["horizon"]
    if s["algorithm"] == "ppo":
        return PPO("CnnPolicy", n_steps=s["horizon"], batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1,
                   vf_coef=0.5, ent_coef=0.01, **common), each  # fmt: skip
    if s["algorithm"] == "a2c":
        return A2C("CnnPolicy", n_steps=s["horizon"], vf_coef=0.25, ent_coef=0.01, **common), 16 * each
    dqn = s["dqn"]
    model = DQN(
        "CnnPolicy", batch_size=dqn["batch_size"], learning_rate=dqn["learning_rate"], buffer_size=dqn["size"],
        learning_starts=0, train_freq=s["horizon"], gradient_steps=each * dqn["intensity"] // dqn["batch_size"],
        target_update_interval=1_000, exploration_fraction=1e-6, exploration_final_eps=0.01, **common,
    )  # fmt: skip
    model.learn(each * 8)
    return model, 4 * each


def main() -> None:
    """For each number of seconds on stdin, measure env steps/s and print the result."""
    model, chunk = build(json.loads(sys.argv[1]))
    model.learn(chunk, reset_num_timesteps=False)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, steps, begin = float(line), 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < seconds:
            model.learn(chunk, reset_num_timesteps=False)
            steps += chunk
        print(steps / took, flush=True)
    model.get_env().close()


if __name__ == "__main__":
    main()
