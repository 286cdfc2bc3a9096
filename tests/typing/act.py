"""A user's script: environments and a trained agent."""

import numpy as np

import accel_rl
from accel_rl.emulator.vector_env import VectorEnv

env = VectorEnv("pong", num_envs=4)
obs, info = env.reset(seed=1)
agent = accel_rl.Run.load("runs/pong").load_agent(greedy=True)
action: np.ndarray = agent.act(obs)
obs, reward, terminated, truncated, info = env.step(action)
env.close()
with accel_rl.make_sampler(game="pong", envs=32, horizon=20, policy=None) as sampler:
    rewards: np.ndarray = sampler.collect().reward.numpy()
