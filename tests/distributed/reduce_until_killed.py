"""Ranks that sum gradients by all-reduce until one rank is killed.

    python -m tests.distributed.reduce_until_killed FOLDER SIZE SHARED

The program forks a process for each of SIZE ranks. A rank writes its process id to FOLDER/RANK after ten updates, and
prints the error with which it ends. With SHARED = 1, the ranks exchange gradients by shared memory, otherwise by gloo.
"""

import multiprocessing
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

from accel_rl.algos.ppo import PPOConfig
from accel_rl.distributed.process_group import dist
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.ranks.sync_context import join_ranks
from accel_rl.settings.train import default_config
from accel_rl.text.errors import RunError


class Plain:
    """The settings and the optimizer of PPO, as a gradient exchange needs them."""

    config = PPOConfig()

    def build_optimizer(self, n):
        return Adam(n)


def reduce(rank: int, size: int, folder: Path, is_shared: bool) -> None:
    config = default_config("a2c")
    config = replace(config, distributed=replace(config.distributed, timeout_s=60.0))
    store = dist.FileStore(str(folder / "store"), size)
    try:
        with join_ranks(config, "cpu", store, rank, size, size) as group:
            if not is_shared:
                group.exchange.shared = None
            model, x = torch.nn.Linear(100_000, 1), torch.ones(1, 100_000)
            gradient_sync = group.exchange.gradient_sync(FlatParameters(model), Plain())
            for i in range(10**9):
                gradient_sync.backward(model(x).sum())
                gradient_sync.step(1e-3, torch.zeros(()))
                group.clock.agree(False, False)
                if i == 10:
                    (folder / str(rank)).write_text(f"{os.getpid()}\n")
    except RunError as e:
        # One call of write() keeps the lines of several ranks apart in the pipe.
        os.write(1, f"{e}\n".encode())
        os._exit(1)


def main() -> None:
    torch.set_num_threads(1)
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    context, common = multiprocessing.get_context("fork"), (size, folder, sys.argv[3] == "1")
    ranks = [context.Process(target=reduce, args=(r, *common), daemon=True) for r in range(size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
