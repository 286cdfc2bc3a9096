"""PPO and DQN of Stable-Baselines3 train on the emulator: `python sb3_learners.py ppo 100000`.

Only the constructor differs from SB3's own Atari scripts, because `SB3VecEnv` already skips, stacks and clips. With the
option `--theirs`, the script uses SB3's constructor.
"""

import argparse
import time

import ale_py
import gymnasium
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from accel_rl.compat.sb3 import SB3VecEnv
from accel_rl.emulator.games import camel_case

parser = argparse.ArgumentParser()
parser.add_argument("algorithm", choices=("ppo", "dqn"))
parser.add_argument("steps", type=int)
parser.add_argument("--game", default="pong")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--theirs", action="store_true")
args = parser.parse_args()


def make(n: int, training: bool) -> VecEnv:
    rules = {"terminal_on_life_loss": training, "clip_reward": training}
    if args.theirs:
        gymnasium.register_envs(ale_py)
        return VecFrameStack(
            make_atari_env(f"{camel_case(args.game)}NoFrameskip-v4", n, args.seed, wrapper_kwargs=rules), 4
        )
    return SB3VecEnv(args.game, n, args.seed, **rules)


if args.algorithm == "ppo":
    envs = make(8, training=True)
    settings = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1}
    model = PPO("CnnPolicy", envs, seed=args.seed, **settings)
else:
    envs = make(1, training=True)
    settings = {"buffer_size": 20_000, "learning_starts": min(10_000, args.steps // 2), "train_freq": 4}
    model = DQN("CnnPolicy", envs, seed=args.seed, **settings)
start = time.perf_counter()
model.learn(args.steps)
rate = model.num_timesteps / (time.perf_counter() - start)
mean, std = evaluate_policy(model, make(4, training=False), n_eval_episodes=4)
print(f"{args.algorithm}: {model.num_timesteps} steps, {rate:.0f} steps/s, score {mean:.1f} +- {std:.1f}")
