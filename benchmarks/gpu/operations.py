"""Counts the operations that one update launches on a GPU, by stage, such as loss or backward. Batches are small,
because the numbers of operations do not depend on the sizes of batches."""

import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from accel_rl.algos.policy_gradient import PolicyBatch
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.settings.train import TrainConfig
from accel_rl.training.learner import Learner
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.sizes import TINY
from benchmarks.gpu.training import build, q_settings, settings

STAGES = ("batch", "forward", "loss", "backward", "clip", "optimizer", "priorities", "metrics")
_PLACES = (
    ("metrics", "/metrics/", "of"),
    ("batch", "/algos/", "draw"),
    ("batch", "/algos/", "batches"),
    ("priorities", "/algos/", "after_update"),
    ("backward", "/optim/", "backward"),
    ("optimizer", "/optim/", "step"),
    ("clip", "/distributed/", "step"),
    ("forward", "/models/", ""),
    ("loss", "/algos/", "loss"),
)
"""Entries (stage, folder, function): an operation that is called, directly or not, by this function in this folder
belongs to the stage. The first matching entry decides."""


class Operations(TorchDispatchMode):
    """A context in which operations that are launched on a device are counted by stage. Views and allocations launch
    nothing, and are not counted."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.by_stage: Counter[str] = Counter()
        self._device = device.type

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        memory = {x.untyped_storage()._cdata for x in inputs}
        out = func(*args, **(kwargs or {}))
        outputs = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        is_view = not func._schema.is_mutable and all(x.untyped_storage()._cdata in memory for x in outputs)
        if (
            not is_view
            and "empty" not in func.__name__
            and any(x.device.type == self._device for x in inputs + outputs)
        ):
            self.by_stage[_stage(sys._getframe(1))] += 1
        return out


def _stage(frame: FrameType | None) -> str:
    """Return the stage of an operation from its call stack."""
    callers = []
    while frame is not None:
        callers.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    for stage, folder, function in _PLACES:
        if any(folder in file and function in ("", name) for file, name in callers):
            return stage
    return "backward"  # Operations on autograd's own thread have no Python callers.


def count(learner: Learner, is_whole: bool = True) -> Counter[str]:
    """Make one update from Python, and return the number of the update's operations by stage. If `is_whole` is false,
    the update handles a rollout with invalid steps."""
    algo = learner.algo
    update = Operations(algo.device)
    # One operation of the CUDA graph adds the update's metrics to those of earlier updates.
    update.by_stage["metrics"] = 1
    if isinstance(algo, ReplayAlgorithm):
        with update:
            UpdateMetrics.of(learner.update(algo.draw()))
        return update.by_stage
    batches, batch = algo.batches(), None
    # The operations of the last minibatch are counted, because the first minibatch also draws the order of the samples.
    while True:
        with Operations(algo.device) as reading:
            following = next(batches, None)
        if following is None:
            break
        batch, update.by_stage["batch"] = following, reading.by_stage.total()
    assert isinstance(batch, PolicyBatch)
    if not is_whole:
        batch = replace(batch, valid=torch.ones_like(batch.action, dtype=torch.bool))
    with update:
        UpdateMetrics.of(learner.update(batch))
    return update.by_stage


def configs(bench: Bench) -> dict[str, TrainConfig]:
    """Return {row of the table: settings of a run}."""
    rainbow: Any = q_settings(bench, "rainbow")
    return {
        "A2C": settings(bench, "a2c", 4),
        "PPO": settings(bench, "ppo", 4, 8, minibatch=16),
        "PQN": settings(bench, "pqn", 4, 8, minibatch=16),
        **{name.upper(): q_settings(bench, name) for name in ("dqn", "c51")},
        "Rainbow": rainbow,
        "Rainbow, noisy": replace(rainbow, algo=replace(rainbow.algo, noisy=True)),
    }


def measure(bench: Bench) -> Result:
    """Count the operations of an update of each algorithm."""
    bench = replace(bench, sizes=replace(TINY, q_network="dqn", replay_size=2_000, warm_cycles=0))
    result = Result(("update", *STAGES, "captured"))
    for name, config in configs(bench).items():
        with closing(build(bench, f"operations {name}", replace(config, capture_updates=False))) as run:
            for is_whole in (True, False) if name in ("A2C", "PPO") else (True,):
                if not isinstance(run.learner.algo, ReplayAlgorithm):
                    run.learner.ingest(run.rollout)
                by_stage = count(run.learner, is_whole)
                row = name if is_whole else f"{name}, some steps invalid"
                result.rows.append([row, *(by_stage[stage] for stage in STAGES), by_stage.total()])
    return result
