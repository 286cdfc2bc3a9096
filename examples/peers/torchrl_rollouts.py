"""TorchRL's GymEnv and its collector run on the emulator: `python torchrl_rollouts.py 2000`.

The id "ALE/Pong-v5" with Gymnasium's wrappers becomes "accel_rl/Pong-v5", whose frames are already stacked. With the
option `--theirs`, the script uses "ALE/Pong-v5" with Gymnasium's wrappers.
"""

import argparse
import time

import ale_py
import gymnasium
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, GymEnv, GymWrapper, ParallelEnv
from torchrl.modules import ProbabilisticActor

import accel_rl
from accel_rl.emulator.games import camel_case

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int, nargs="?", default=10_000)
parser.add_argument("--game", default="pong")
parser.add_argument("--theirs", action="store_true")
args = parser.parse_args()
game = camel_case(args.game)


def make() -> EnvBase:
    if args.theirs:
        gymnasium.register_envs(ale_py)
        env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(f"ALE/{game}-v5", frameskip=1))
        return GymWrapper(gymnasium.wrappers.FrameStackObservation(env, 4), categorical_action_encoding=True)
    gymnasium.register_envs(accel_rl.gym)
    return GymEnv(f"accel_rl/{game}-v5", categorical_action_encoding=True)


class Network(nn.Module):
    def __init__(self, n_actions: int) -> None:
        super().__init__()
        layers = (nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten())
        self.net = nn.Sequential(*layers, nn.Linear(2592, n_actions))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs.float().flatten(0, -4) / 255).unflatten(0, obs.shape[:-3] or (1,))


if __name__ == "__main__":
    envs = ParallelEnv(2, make)
    module = TensorDictModule(Network(envs.action_spec.space.n), in_keys=["observation"], out_keys=["logits"])
    policy = ProbabilisticActor(module, in_keys=["logits"], distribution_class=torch.distributions.Categorical)
    collector = Collector(envs, policy, frames_per_batch=200, total_frames=args.steps)
    frames, start = 0, 0.0
    for batch in collector:
        start = start or time.perf_counter()
        frames += batch.numel()
    rate = (frames - batch.numel()) / (time.perf_counter() - start)
    collector.shutdown()
    print(f"{frames} steps, {rate:.0f} steps/s")
