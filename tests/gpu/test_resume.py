"""A resumed run on a GPU gives the parameters and metrics of an uninterrupted run.

A resumed run can change from a GPU to the CPU and vice versa, and evaluations on the GPU and the CPU are equal.
"""

import warnings
from dataclasses import replace

import pytest
import torch

from accel_rl.checkpoints.checkpoint import load
from accel_rl.text import notes
from tests.gpu.runs import GPU, RUNS, build, cycles, marked

MOVED = tuple(name for name in RUNS if "pong" not in name)
QUICK_TO_MOVE = ("rainbow, noisy",)
EVALUATED = ("a2c, time limits", "ppo, LSTM", "impala, LSTM", "dqn", "c51, concurrent", "rainbow, noisy")


def trainer(name, device, folder):
    torch.manual_seed(0)
    run = replace(RUNS[name], evaluation=replace(RUNS[name].evaluation, parallel=4, steps=200))
    built = build(run, device, folder)
    built.reporter.open(0, 0)
    return built


def restored(name, device, folder, state):
    """Return a new trainer of the run `name` that continues from the state of a checkpoint."""
    built = trainer(name, device, folder)
    built.saver.restore(state)
    return built


def checkpoint(trainer):
    """Save a checkpoint of the trainer, and return the state that is read from it."""
    trainer.saver.save()
    trainer.saver.finish()
    return load(trainer.saver.checkpoints.path(trainer.counters.env_steps))


@pytest.mark.parametrize("name", marked(RUNS, ("c51, concurrent",)))
def test_a_resumed_run_equals_the_uninterrupted_one(simulated_gpu, tmp_path, name):
    first = trainer(name, GPU, tmp_path / "first")
    cycles(first, 4)
    state = checkpoint(first)
    whole = cycles(first, 3)[0]
    second = restored(name, GPU, tmp_path / "second", state)
    resumed = cycles(second, 3)[0]
    assert torch.equal(first.learner.flat.data.cpu(), second.learner.flat.data.cpu())
    # The metrics of the first cycle are not compared: those of `whole` also include steps before the checkpoint.
    for a, b in zip(whole[1:], resumed[1:], strict=True):
        assert a == pytest.approx(b, rel=1e-12, nan_ok=True)
    first._close()
    second._close()


@pytest.mark.parametrize(("before", "after"), [(GPU, "cpu"), ("cpu", GPU)])
@pytest.mark.parametrize("name", marked(MOVED, QUICK_TO_MOVE))
def test_a_checkpoint_moves_between_a_gpu_and_a_cpu(simulated_gpu, tmp_path, name, before, after):
    """Two runs that continue a checkpoint on another kind of device are equal. A run that changes the
    kind of device reports that its random numbers are new."""
    first = trainer(name, before, tmp_path / "first")
    cycles(first, 4)
    checkpoint(first)
    found = []
    for folder in ("second", "third"):
        torch.manual_seed(11)  # of no effect
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            notes._said.clear()
            state = load(first.saver.checkpoints.path(first.counters.env_steps))
            second = restored(name, after, tmp_path / folder, state)
        assert sum("on another kind of device" in str(w.message) for w in said) == 1
        for a, b in zip(first.learners, second.learners, strict=True):
            assert torch.equal(a.flat.data.cpu(), b.flat.data.cpu())
        assert second.counters.env_steps == first.counters.env_steps
        cycles(second, 2)
        assert second.learner.updates > first.learner.updates
        found.append([x.flat.data.cpu() for x in second.learners])
        second._close()
    first._close()
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("name", marked(EVALUATED, ("dqn",)))
def test_an_evaluation_equals_that_on_the_cpu(simulated_gpu, tmp_path, name):
    scores = []
    for device in ("cpu", GPU):
        built = trainer(name, device, tmp_path / device.replace(":", ""))
        cycles(built, 2)
        agent = built.learner.algo.agent.evaluating(False)
        scores.append(built.evaluator.evaluate(agent, steps=200, seed=7).scores)
        built._close()
    assert scores[0] == scores[1] and len(scores[0]) > 2
