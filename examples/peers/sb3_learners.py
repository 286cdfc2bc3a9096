"""PPO and DQN of Stable-Baselines3 on the emulator: `python sb3_learners.py ppo 100000`.

Beside SB3's own Atari scripts only the constructor differs: `VectorEnv` already skips, stacks and clips.
"""

import sys

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.sb3 import SB3VecEnv


def make(n: int, **rules: bool) -> SB3VecEnv:
    return SB3VecEnv(VectorEnv("pong", n, autoreset_mode="SameStep", **rules), seed=1)


name, steps = sys.argv[1], int(sys.argv[2])
if name == "ppo":
    envs = make(8, episodic_life=True)
    model = PPO(
        "CnnPolicy", envs, n_steps=128, batch_size=256, n_epochs=4, learning_rate=2.5e-4, clip_range=0.1, seed=1
    )
else:
    envs = make(1, episodic_life=True)
    model = DQN("CnnPolicy", envs, buffer_size=20_000, learning_starts=min(10_000, steps // 2), train_freq=4, seed=1)
model.learn(steps)
mean, std = evaluate_policy(model, make(4, reward_clipping=False), n_eval_episodes=4)
print(f"{name}: {model.num_timesteps} steps, score {mean:.1f} +- {std:.1f}")
