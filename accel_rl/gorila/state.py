"""Snapshots of all shards as one state, for checkpoints."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from accel_rl.gorila.messages import ShardCounts, Snapshot


def from_snapshots(snapshots: list[Snapshot]) -> dict[str, Any]:
    """Join the snapshots of all shards: parameters and tensors of the optimizer state are whole vectors [P], and each
    number of the optimizer state (a step count) is a list, one per shard."""
    optimizers = [s.optimizer for s in snapshots]
    return {
        "parameters": torch.cat([s.parameters for s in snapshots]),
        "optimizer": {
            name: torch.cat([o[name] for o in optimizers]) if isinstance(x, Tensor) else [o[name] for o in optimizers]
            for name, x in optimizers[0].items()
        },
        "shards": [{"updates": s.updates, "sequences": s.sequences, "counts": asdict(s.counts)} for s in snapshots],
    }


def to_snapshots(state: dict[str, Any], parts: list[slice]) -> list[Snapshot]:
    """Cut a state into the snapshots of the slices `parts`. ValueError if the number of shards differs."""
    shards = state["shards"]
    if len(shards) != len(parts):
        raise ValueError(f"the checkpoint has {len(shards)} shards, the run {len(parts)}")
    return [
        Snapshot(
            state["parameters"][part],
            {name: x[part] if isinstance(x, Tensor) else x[i] for name, x in state["optimizer"].items()},
            shard["updates"],
            dict(shard["sequences"]),
            ShardCounts(**shard["counts"]),
        )
        for i, (part, shard) in enumerate(zip(parts, shards, strict=True))
    ]
