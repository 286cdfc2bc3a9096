"""A run on a simulated GPU that is resumed equals the uninterrupted one; evaluations equal those on a CPU."""

from dataclasses import replace

import pytest
import torch

from accel_rl.checkpoints.checkpoint import load
from tests.gpu.runs import GPU, RUNS, build, cycles, marked

EVALUATED = ("a2c, time limits", "ppo, LSTM", "impala, LSTM", "dqn", "c51, concurrent", "rainbow, noisy")


def trainer(name, device, folder):
    torch.manual_seed(0)
    run = replace(RUNS[name], evaluation=replace(RUNS[name].evaluation, parallel=4, steps=200))
    built = build(run, device, folder)
    built.reporter.open(0, 0)
    return built


def restored(name, device, folder, state):
    """Return a trainer that goes on from a state that went through a checkpoint's files."""
    built = trainer(name, device, folder)
    built.saver.restore(state)
    return built


def checkpoint(trainer):
    """Save the trainer's state, and load it from its files."""
    trainer.saver.save()
    return load(trainer.saver.checkpoints.path(trainer.counters.env_steps))


@pytest.mark.parametrize("name", marked(RUNS, ("a2c, LSTM", "c51, concurrent")))
def test_a_resumed_run_equals_the_uninterrupted_one(simulated_gpu, tmp_path, name):
    first = trainer(name, GPU, tmp_path / "first")
    cycles(first, 6)
    state = checkpoint(first)
    second = restored(name, GPU, tmp_path / "second", state)
    torch_rng = torch.get_rng_state()
    whole = cycles(first, 5)[0]
    torch.set_rng_state(torch_rng)
    resumed = cycles(second, 5)[0]
    assert torch.equal(first.learner.flat.data.cpu(), second.learner.flat.data.cpu())
    for a, b in zip(whole[1:], resumed[1:], strict=True):  # the first row's metrics begin before the checkpoint
        assert a == pytest.approx(b, rel=1e-12, nan_ok=True)
    first._close()
    second._close()


def test_a_gpus_checkpoint_goes_on_on_the_cpu(simulated_gpu, tmp_path):
    first = trainer("dqn, prioritized, three steps", GPU, tmp_path / "gpu")
    cycles(first, 6)
    state = checkpoint(first)
    second = restored("dqn, prioritized, three steps", "cpu", tmp_path / "cpu", state)
    assert torch.equal(first.learner.flat.data.cpu(), second.learner.flat.data)
    assert second.counters.env_steps == first.counters.env_steps
    cycles(second, 3)
    first._close()
    second._close()


@pytest.mark.parametrize("name", marked(EVALUATED, ("ppo, LSTM", "dqn")))
def test_an_evaluation_equals_that_on_the_cpu(simulated_gpu, tmp_path, name):
    scores = []
    for device in ("cpu", GPU):
        built = trainer(name, device, tmp_path / device.replace(":", ""))
        cycles(built, 3)
        agent = built.learner.algo.agent.evaluating(False)
        scores.append(built.evaluator.evaluate(agent, steps=200, seed=7).scores)
        built._close()
    assert scores[0] == scores[1] and len(scores[0]) > 2
