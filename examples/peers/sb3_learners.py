"""PPO and DQN of Stable-Baselines3 on the emulator: `python sb3_learners.py ppo 100000`.

Beside SB3's own Atari scripts only the constructor differs: `VectorEnv` already skips, stacks and clips. A third
argument, `theirs`, takes SB3's constructor.
"""

import sys
import time

import ale_py
import gymnasium
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.sb3 import SB3VecEnv

name, steps, theirs = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["theirs"]


def make(n: int, training: bool) -> VecEnv:
    if theirs:
        gymnasium.register_envs(ale_py)
        rules = {"terminal_on_life_loss": training, "clip_reward": training}
        return VecFrameStack(make_atari_env("PongNoFrameskip-v4", n, seed=1, wrapper_kwargs=rules), 4)
    envs = VectorEnv("pong", n, autoreset_mode="SameStep", episodic_life=training, reward_clipping=training)
    return SB3VecEnv(envs, seed=1)


if name == "ppo":
    envs = make(8, training=True)
    model = PPO(
        "CnnPolicy", envs, n_steps=128, batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1, seed=1
    )
else:
    envs = make(1, training=True)
    model = DQN("CnnPolicy", envs, buffer_size=20_000, learning_starts=min(10_000, steps // 2), train_freq=4, seed=1)
start = time.perf_counter()
model.learn(steps)
rate = model.num_timesteps / (time.perf_counter() - start)
mean, std = evaluate_policy(model, make(4, training=False), n_eval_episodes=4)
print(f"{name}: {model.num_timesteps} steps, {rate:.0f} steps/s, score {mean:.1f} +- {std:.1f}")
