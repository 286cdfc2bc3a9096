"""Tianshou's DQN and collector on the emulator: `python tianshou_collector.py 1000`.

`gymnasium.make` gets the id of this emulator; there is nothing to wrap.
"""

import sys

import gymnasium
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import DQNet

import accel_rl

gymnasium.register_envs(accel_rl.gym)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
envs = DummyVectorEnv([lambda: gymnasium.make("accel_rl/Pong-v5") for _ in range(4)])
space = envs.action_space[0]
network = DQNet(4, 84, 84, int(space.n))
policy = DiscreteQLearningPolicy(model=network, action_space=space, eps_training=0.2)
algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-4), gamma=0.99, target_update_freq=500)
buffer = VectorReplayBuffer(20_000, 4, stack_num=1)
collector = Collector(algorithm, envs, buffer, exploration_noise=True)
collector.reset()
found = collector.collect(n_step=steps)
print(f"{found.n_collected_steps} steps, {torch.tensor(buffer.rew).abs().sum():.0f} points")
