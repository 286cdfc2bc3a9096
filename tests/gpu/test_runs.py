"""Whole runs on a GPU learn the same parameters as on the CPU, with captured and with uncaptured updates.

The tests also count how often the host waits for the simulated GPU. `pytest -m gpu` makes the same runs on a real GPU.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.gpu.runs import CAPTURE, GPU, GPU_QUICK, QUICK, RUNS, SERVED, build, cycles, marked, play

CYCLES = 10
FEW = {
    "pqn, pong": 2,
    "a2c, IMPALA network, pong": 2,
    "a2c, Nature network, pong": 2,
    "dqn, IMPALA network, pong": 4,
    "dqn, BTR network, pong": 4,
}
"""Maps runs whose parameters are compared after fewer training cycles than usual to the number of cycles.

The optimizer of such a run divides by gradients near zero, which amplifies rounding differences.
"""
ON_BOTH = tuple(n for n in RUNS if "Hadamax" not in n)
"""Runs whose parameters are compared between a GPU and the CPU.

Runs with the Hadamax network are not compared: the norm of their gradient of 5 M weights depends on the order of
summation, and differs by 0.2 % between devices.
"""
PERIODS = 9  # number of training cycles of a run with the concurrent schedule
CAPTURED = tuple(n for n in RUNS if "replay on the host" not in n)
# Runs that draw no random numbers on the GPU. Rounding in the deep IMPALA network would change actions.
ON_POLICY = tuple(n for n in RUNS if n.startswith(("a2c", "impala")) and "IMPALA network" not in n)

REAL = "cuda:0"
ON_SECOND = ("ppo, time limits", "dqn, concurrent, replay on the host")


def both(names, quick, on_gpu=None):
    """Return test parameters (device, name) for the simulated GPU, and for a real GPU with the mark `gpu`."""
    found = []
    for device, chosen, fast in ((GPU, names, quick), (REAL, on_gpu or names, GPU_QUICK)):
        for param in marked(chosen, fast):
            marks = [*param.marks, *([pytest.mark.gpu] if device == REAL else [])]
            found.append(pytest.param(device, *param.values, marks=marks, id=f"{device}-{param.values[0]}"))
    return found


def length(name):
    return PERIODS if RUNS[name].schedule == "concurrent" else CYCLES


@pytest.fixture
def gpu(request, monkeypatch):
    """Return the test's device, and prepare it: start the simulated GPU, or make a real GPU's cuDNN deterministic."""
    device = request.getfixturevalue("device")
    if device == GPU:
        request.getfixturevalue("simulated_gpu")
    else:
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    return device


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    """Return a function on_cpu(name) that makes the run `name` on the CPU, at most once, and returns its results."""
    known = {}

    def played(name):
        if name not in known:
            known[name] = play(RUNS[name], "cpu", tmp_path_factory.mktemp("cpu") / "run", length(name))
        return known[name]

    return played


@pytest.mark.parametrize(("device", "name"), both(ON_BOTH, QUICK, ON_POLICY))
def test_a_run_equals_that_on_the_cpu_and_waits_for_actions_alone(gpu, device, tmp_path, on_cpu, name, capsys):
    found = play(RUNS[name], gpu, tmp_path / "run", length(name))
    compared = play(RUNS[name], gpu, tmp_path / "few", FEW[name]) if name in FEW else found
    expected = play(RUNS[name], "cpu", tmp_path / "cpu", FEW[name]) if name in FEW else on_cpu(name)
    assert sum(compared.updates) > 1
    near, far = {"atol": 2e-5, "rtol": 1e-4}, {"atol": 1e-3, "rtol": 1e-2}
    for a, b in zip(expected.parameters, compared.parameters, strict=True):
        torch.testing.assert_close(a, b, **(far if gpu == REAL or name in FEW else near))
        assert gpu == REAL or torch.isclose(a, b, **near).float().mean() > 0.99
    if gpu == REAL:
        return
    for a, b in zip(expected.metrics, compared.metrics, strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-4)
    is_captured = name in CAPTURED
    assert ("updates are not captured" not in found.events) == is_captured, found.events
    # All graphs are captured before the last 4 cycles, unless a replay's pool of final frames has grown.
    waits, updates = sum(found.waits[-4:], Counter()), sum(found.updates[-4:])
    served = sum(n for place, n in waits.items() if place.startswith(SERVED))
    captures = sum(n for place, n in waits.items() if place.startswith(CAPTURE))
    others = Counter({place: n for place, n in waits.items() if not place.startswith((SERVED, CAPTURE))})
    rollouts = served // (2 * RUNS[name].T)
    with capsys.disabled():
        print(f"\n{name}: {updates} updates, {rollouts} rollouts; waits: {served} for actions, {dict(others)}", end="")
    run, replay = RUNS[name], getattr(RUNS[name].algo, "replay", None)
    # With a prioritized replay on the host, the host waits for the errors of each update.
    each = int(replay is not None and replay.device == "cpu" and replay.prioritized)
    # With a replay of sequences on the host, the host also waits for recurrent states.
    states = rollouts if each and run.algorithm == "r2d2" else 0
    cycle = run.period if run.schedule == "concurrent" else run.T * run.sampler.envs
    # In each step of a rollout, the host waits for the actions of each of the two groups.
    assert served == 4 * cycle // (run.T * run.sampler.envs) * run.T * 2
    kl = rollouts * (
        getattr(run.algo, "learning_rate_schedule", "") == "kl"
    )  # The host reads the KL divergence once per rollout.
    waits, graphs = each * updates + states + kl, 1 + bool(run.secondary.batch)
    assert sum(others.values()) <= waits and captures <= graphs, (others, captures)


@pytest.mark.parametrize(("device", "name"), both(CAPTURED, ("impala",)))
def test_captured_updates_equal_those_from_python(gpu, device, tmp_path, name):
    """Captured updates compute the same parameters as uncaptured updates, bit for bit (on a real GPU with deterministic
    cuDNN)."""
    n = length(name)
    captured = play(RUNS[name], gpu, tmp_path / "captured", n)
    eager = play(replace(RUNS[name], capture_updates=False), gpu, tmp_path / "eager", n)
    assert sum(captured.updates) >= n - 1 and "not captured" not in captured.events, captured.events
    for a, b in zip(captured.parameters, eager.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=0.0, rtol=0.0)
    for a, b in zip(captured.metrics, eager.metrics, strict=True):
        assert a == pytest.approx(b, rel=1e-12 if gpu == GPU else 1e-2, abs=1e-3 * (gpu == REAL), nan_ok=True)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", marked([n for n in RUNS if "replay on the host" in n], RUNS))
def test_a_run_with_the_replay_on_the_host(tmp_path, name):
    assert all(x.isfinite().all() for x in play(RUNS[name], REAL, tmp_path / "run").parameters)


@pytest.mark.parametrize("name", marked(RUNS, ON_SECOND))
def test_a_run_on_the_second_gpu_never_uses_the_first(simulated_gpu, tmp_path, name):
    """A run on the second GPU uses the first GPU neither in the main thread, nor in its other threads, nor in
    evaluations.

    The first GPU is the default device of new threads.
    """
    run = replace(RUNS[name], evaluation=replace(RUNS[name].evaluation, parallel=4, steps=100))
    trainer = build(run, "sim:1", tmp_path / "run")
    trainer.reporter.open(0, 0)
    cycles(trainer, 5)
    trainer.evaluator.evaluate(trainer.learner.algo.agent.evaluating(False), steps=100, seed=7)
    trainer.saver.save()
    trainer.saver.finish()
    trainer._close()
    assert simulated_gpu.touched == {1}
