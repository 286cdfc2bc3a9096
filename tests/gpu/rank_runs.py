"""Makes short training runs as one of two ranks: `python -m tests.gpu.rank_runs RANK STORE OUT RUN [RUN ...]`.

Every run is made on the CPU, and on a simulated GPU per rank. Some runs are also made on one GPU that both ranks share,
or with captured updates.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from accel_rl.distributed.collective import Collective
from accel_rl.planning.plan import RankPlan
from accel_rl.planning.rank_config import rank_config
from accel_rl.ranks.sync_context import join_ranks, sync_context
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.speed.captured_updates import CapturedUpdates
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.context import RankContext
from tests import simulated_device
from tests.golden.runs import POLE, SEQUENCES, config
from tests.gpu.runs import LSTM, RETURNS, declare_parts, on_device, permutations_of_a_gpu, q

OWN = ("sim:0", "sim:1")
DEVICES = {"cpu": ("cpu", "cpu"), "own": OWN, "captured": OWN, "shared": ("sim:1", "sim:1")}
WAITING = q("dqn")
RUNS: dict[str, TrainConfig] = {
    "a2c": config("a2c", POLE, gae_lambda=0.9),
    "ppo": config("ppo", POLE, horizon=16, minibatch=32, epochs=2),
    "ppo, LSTM": config("ppo", POLE, horizon=8, minibatch=32, epochs=2, **LSTM),
    "dqn": q("dqn", replay_prioritized=True, n_step=3),
    "dqn, skipped cells": replace(WAITING, sampler=replace(WAITING.sampler, reset="wait")),
    "dqn, concurrent, second learner": q("dqn", schedule="concurrent", secondary=8, replay_prioritized=True),
    "c51": q("c51", **RETURNS),
    "qrdqn": q("qrdqn", quantiles=7),
    "iqn": q("iqn", quantiles=7, target_quantiles=5, value_quantiles=4, cosines=8),
    "btr": q("btr", quantiles=4, target_quantiles=4, value_quantiles=4),
    "r2d2": q("r2d2", **SEQUENCES),
    "rainbow": q("rainbow", noisy=True, **RETURNS),
    "impala": config("impala", POLE, window=10, batches=2, horizon=5),
    "a2c, games on the device": on_device(config("a2c")),
}
QUICK = ("dqn",)
CYCLES = 6
LATE_S = 10.0
"""Seconds for which one rank pauses once in a run with captured collectives, while the other rank waits for it in a
graph."""
MORE = {
    "shared": ("dqn",),
    "captured": (
        "a2c",
        "ppo",
        "ppo, LSTM",
        "impala",
        "dqn",
        "dqn, skipped cells",
        "c51",
        "qrdqn",
        "iqn",
        "rainbow",
        "r2d2",
    ),
}
"""Runs that are also made on one GPU that both ranks share ("shared"), or with captured collectives, as with NCCL
("captured")."""


def devices(name: str) -> dict[str, tuple[str, str]]:
    """Return {name: pair of the two ranks' devices} for all pairs of devices on which the run is made."""
    return {where: pair for where, pair in DEVICES.items() if name in MORE.get(where, RUNS)}


def learned(run: TrainConfig, device: str, folder: Path, context: RankContext) -> list[Tensor]:
    """Train for CYCLES training cycles, and return the parameters [P] of each learner of this rank, on the host."""
    exchange: Any = context.exchange
    run = replace(run, distributed=replace(run.distributed, ranks=exchange.communicator.size))
    run = replace(rank_config(resolve(run), context.rank), device=device)
    plan = RankPlan.resolve(run, context.rank, exchange.communicator.size)
    trainer = build_trainer(run, plan, RunFolder.create(folder, run), None, context)
    captured: CapturedUpdates | None = trainer.learner._captured
    declare_parts(trainer.sampler)
    gather, exchanges = exchange.communicator.all_gather, list[int]()
    exchange.communicator.all_gather = lambda numbers: [exchanges.append(len(numbers)), gather(numbers)][1]
    try:
        trainer._open()
        exchanges.clear()
        for cycle in range(CYCLES):
            if exchange.captures_updates and context.rank and cycle == CYCLES - 2:
                time.sleep(LATE_S)
            trainer._cycle()
        trainer._verify()
        assert trainer.learner.updates > 1, trainer.learner.updates
        if exchange.captures_updates:
            assert captured is not None and not captured.updates.why and captured.updates._captures
            # At most two exchanges of the ranks per training cycle: one for the advantages, and one for all updates.
            assert len(exchanges) <= 2 * CYCLES, exchanges
            if not hasattr(run.algo, "replay"):
                assert sum(exchanges) >= trainer.learner.updates, exchanges
            keys = exchange.communicator.gather([list(captured.updates._captures), len(captured.updates._numbers)])
            assert keys[0][0] == keys[1][0], keys
        return [x.flat.data.cpu() for x in trainer.learners]
    finally:
        trainer._close()


@contextmanager
def as_nccl() -> Iterator[None]:
    """Context manager in which updates are captured together with their collectives, as with NCCL."""
    on_gpu, Collective.on_gpu = Collective.on_gpu, True
    try:
        with simulated_device.collectives_on_device():
            yield
    finally:
        Collective.on_gpu = on_gpu


def main() -> None:
    rank, path, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    simulated_device.install(races=True)
    store = dist.FileStore(path, 2)
    any_run = RUNS["a2c"]
    found = {}
    with join_ranks(any_run, "cpu", store, rank, 2, 2):
        for name in sys.argv[4:]:
            for where, pair in devices(name).items():
                key = f"{name}/{where}"
                context = sync_context(dist.PrefixStore(key, store), 60.0, 5)
                as_elsewhere = {"captured": as_nccl, "cpu": permutations_of_a_gpu}.get(where, nullcontext)
                with as_elsewhere():
                    found[key] = learned(RUNS[name], pair[rank], out / key.replace("/", "-"), context)
    torch.save(found, out / "found.pt")


if __name__ == "__main__":
    main()
