"""Collectives inside captured updates, on a simulated GPU with NCCL-like collectives."""

import os
from collections import Counter

import pytest
import torch

from accel_rl.distributed.collective import Collective
from accel_rl.distributed.process_group import backend, file_store, process_group
from accel_rl.planning.plan import RankPlan, resolve_device
from accel_rl.ranks.sync_context import sync_context
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.training.build_trainer import build_trainer
from tests import simulated_device
from tests.golden.runs import POLE, config
from tests.gpu.runs import CAPTURE, GPU, SERVED, cycles, q, replace
from tests.marks import slow

RUNS = {
    "a2c": config("a2c", POLE),
    "dqn, prioritized": q("dqn", replay_prioritized=True, secondary=8),
    "dqn, concurrent": q("dqn", replay_prioritized=True, schedule="concurrent"),
}


@pytest.fixture
def context(simulated_gpu, monkeypatch):
    """A function that returns the context of a single rank, whose collectives stay on the simulated GPU as with
    NCCL."""
    fd = os.memfd_create("store")
    store = file_store(fd, 1)
    monkeypatch.setattr(Collective, "on_gpu", True)
    with process_group(store, 0, 1, "gloo", GPU, 60.0), simulated_gpu.collectives_on_device():
        yield lambda: sync_context(store, 60.0, 100)
    os.close(fd)


def played(run, folder, context, device=GPU):

    run = resolve(replace(run, device=device))
    torch.manual_seed(0)
    trainer = build_trainer(run, RankPlan.resolve(run), RunFolder.create(folder, run), None, context)
    rollouts = trainer.sampler.server.rollouts
    simulated_device.in_parts(*(x for r in rollouts for x in (r.frames, r.age)))
    trainer.reporter.open(0, 0)
    try:
        _, waits, updates = cycles(trainer, 8)
        trainer._verify()
        return [x.flat.data.cpu() for x in trainer.learners], sum(waits[-3:], Counter()), sum(updates[-3:])
    finally:
        trainer._close()


SLOW = ("dqn, prioritized", "dqn, concurrent")


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in RUNS])
def test_captured_all_reduce_equals_that_from_python_and_nothing_waits(context, tmp_path, name):
    captured, waits, updates = played(RUNS[name], tmp_path / "captured", context())
    assert not (tmp_path / "captured/events.log").exists()  # All updates were captured.
    others = {place: n for place, n in waits.items() if not place.startswith((SERVED, CAPTURE))}
    assert updates > 2 and not others, others
    eager, _, _ = played(replace(RUNS[name], capture_updates=False), tmp_path / "eager", context())
    for a, b in zip(captured, eager, strict=True):
        assert torch.equal(a, b)


def test_gloo_updates_are_not_captured(simulated_gpu):
    """Updates with gloo's collectives are not captured, because a copy to the host would break a capture."""
    assert backend("sim:0", 1, 1) == backend("cuda:0", 1, 2) == "gloo" and resolve_device("sim") == GPU
    fd = os.memfd_create("store")
    store = file_store(fd, 1)
    with process_group(store, 0, 1, "gloo", GPU, 60.0):
        context = sync_context(store, 60.0, 100)
        assert not context.exchange.captures_updates
        graph, x = torch.sim.CUDAGraph(), torch.ones(3, device=GPU)
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"), torch.sim.graph(graph):
            torch.distributed.all_reduce(x)
    os.close(fd)
