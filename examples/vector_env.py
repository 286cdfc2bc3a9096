"""The emulator is a Gymnasium vector environment that a user's own loop can step."""

import sys

import gymnasium
import numpy as np

import accel_rl

gymnasium.register_envs(accel_rl.gym)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
envs = gymnasium.make_vec("accel_rl/Breakout-v5", num_envs=8, reward_clipping=False)
random = np.random.default_rng(1)
obs, info = envs.reset(seed=1)
scores, score = [], np.zeros(envs.num_envs)
for _ in range(steps // envs.num_envs):
    actions = random.integers(envs.single_action_space.n, size=envs.num_envs)
    obs, reward, terminated, truncated, info = envs.step(actions)
    score += reward
    ended = terminated | truncated
    scores += score[ended].tolist()
    score[ended] = 0
print(f"{len(scores)} episodes, mean score {np.mean(scores) if scores else float('nan'):.2f}")
envs.close()
