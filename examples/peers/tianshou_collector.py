"""Tianshou's DQN and collector run on the emulator: `python tianshou_collector.py 1000`.

`gymnasium.make` gets the id of accel_rl's emulator, which needs no wrappers. With the option `--theirs`, the script
uses ale-py's id and Gymnasium's wrappers.
"""

import argparse
import time

import ale_py
import gymnasium
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import DQNet

import accel_rl
from accel_rl.emulator.games import camel_case

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int, nargs="?", default=10_000)
parser.add_argument("--game", default="pong")
parser.add_argument("--theirs", action="store_true")
args = parser.parse_args()
game = camel_case(args.game)


def make() -> gymnasium.Env:
    if args.theirs:
        env = gymnasium.make(f"ALE/{game}-v5", frameskip=1)
        return gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.AtariPreprocessing(env), 4)
    return gymnasium.make(f"accel_rl/{game}-v5")


gymnasium.register_envs(ale_py if args.theirs else accel_rl.gym)
envs = DummyVectorEnv([make for _ in range(4)])
space = envs.action_space[0]
network = DQNet(4, 84, 84, int(space.n))
policy = DiscreteQLearningPolicy(model=network, action_space=space, eps_training=0.2)
algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-4), gamma=0.99, target_update_freq=500)
buffer = VectorReplayBuffer(20_000, 4, stack_num=1)
collector = Collector(algorithm, envs, buffer, exploration_noise=True)
collector.reset()
start = time.perf_counter()
found = collector.collect(n_step=args.steps)
rate = found.n_collected_steps / (time.perf_counter() - start)
print(f"{found.n_collected_steps} steps, {rate:.0f} steps/s, {torch.tensor(buffer.rew).abs().sum():.0f} points")
