"""Whole runs on a simulated GPU equal those on the CPU, and the host waits for nothing but actions."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.gpu.runs import CAPTURE, GPU, RUNS, SERVED, marked, play

CYCLES = 12
FROM_PYTHON = ("impala", "replay on the host")  # updates that are not captured
CAPTURED = tuple(n for n in RUNS if not any(x in n for x in FROM_PYTHON))
# The next draw depends on the last errors: priorities on the host cost a wait an update.
WAITS_AN_UPDATE = {
    name: 1
    for name in (
        "rainbow, replay on the host",
        "rainbow, concurrent, replay on the host",
        "dqn, prioritized, replay on the host",
    )
}


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    """Play a run on the CPU, once."""
    known = {}

    def played(name):
        if name not in known:
            known[name] = play(RUNS[name], "cpu", tmp_path_factory.mktemp("cpu") / "run", CYCLES)
        return known[name]

    return played


@pytest.mark.parametrize("name", marked(RUNS))
def test_a_run_equals_that_on_the_cpu_and_waits_for_actions_alone(simulated_gpu, tmp_path, on_cpu, name, capsys):
    expected = on_cpu(name)
    found = play(RUNS[name], GPU, tmp_path / "run", CYCLES)
    for a, b in zip(expected.parameters, found.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    for a, b in zip(expected.metrics, found.metrics, strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-4)
    is_captured = not any(x in name for x in FROM_PYTHON)
    assert ("updates are not captured" not in found.events) == is_captured, found.events
    # the last cycles: the graphs are captured, but for a replay's whose pool of final frames has just grown
    waits, updates = sum(found.waits[-4:], Counter()), sum(found.updates[-4:])
    served = sum(n for place, n in waits.items() if place.startswith(SERVED))
    captures = sum(n for place, n in waits.items() if place.startswith(CAPTURE))
    others = Counter({place: n for place, n in waits.items() if not place.startswith((SERVED, CAPTURE))})
    rollouts = served // (2 * RUNS[name].T)
    with capsys.disabled():
        print(f"\n{name}: {updates} updates, {rollouts} rollouts; waits: {served} for actions, {dict(others)}", end="")
    run, each = RUNS[name], WAITS_AN_UPDATE.get(name, 0)
    cycle = run.period if run.schedule == "concurrent" else run.T * run.sampler.envs
    assert served == 4 * cycle // (run.T * run.sampler.envs) * run.T * 2  # once for each step of each of two groups
    assert sum(others.values()) <= each * updates and captures <= 1 + bool(run.secondary.batch), (others, captures)


@pytest.mark.parametrize("name", marked(CAPTURED, ("a2c, LSTM", "dqn, concurrent")))
def test_captured_updates_equal_those_from_python_bit_for_bit(simulated_gpu, tmp_path, name):
    n = 5 if RUNS[name].schedule == "concurrent" else CYCLES  # a cycle is a period
    captured = play(RUNS[name], GPU, tmp_path / "captured", n)
    eager = play(replace(RUNS[name], capture_updates=False), GPU, tmp_path / "eager", n)
    assert sum(captured.updates) >= 12
    assert all(torch.equal(a, b) for a, b in zip(captured.parameters, eager.parameters, strict=True))
    for a, b in zip(captured.metrics, eager.metrics, strict=True):
        assert a == pytest.approx(b, rel=1e-12, nan_ok=True)
