"""One of several ranks that add up gradients until one is killed: `python -m tests.distributed.reduce_until_killed
RANK SIZE
STORE [FD]`; FD: a file for the gradients."""

import os
import sys
from dataclasses import replace

import torch

from accel_rl.algos.ppo import PPOConfig
from accel_rl.config.train import default_config
from accel_rl.distributed.process_group import dist
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.runners.ranks.sync_context import join_ranks
from accel_rl.system.errors import RunError


class Plain:
    """An algorithm as far as an exchange knows it."""

    config = PPOConfig()

    def build_optimizer(self, n):
        return Adam(n)


def main() -> None:
    rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    config = default_config("a2c")
    config = replace(config, distributed=replace(config.distributed, timeout_s=60.0))
    with join_ranks(config, "cpu", dist.FileStore(path, size), rank, size, size, *map(int, sys.argv[4:])) as group:
        model, x = torch.nn.Linear(100_000, 1), torch.ones(1, 100_000)
        gradient_sync = group.exchange.gradient_sync(FlatParameters(model), Plain())
        for i in range(10**9):
            gradient_sync.backward(model(x).sum())
            gradient_sync.step(1e-3, torch.zeros(()))
            group.clock.stops(False)
            if i == 10:
                print("reducing", flush=True)


if __name__ == "__main__":
    try:
        main()
    except RunError as e:
        print(e, file=sys.stderr, flush=True)
        os._exit(1)
