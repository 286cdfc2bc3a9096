"""On a real GPU: whole runs, every algorithm, with captured updates and with updates from Python."""

from dataclasses import replace

import pytest
import torch

from tests.gpu.runs import RUNS, play

pytestmark = pytest.mark.gpu

GPU = "cuda:0"
FROM_PYTHON = ("impala", "replay on the host")  # updates that are not captured
ON_POLICY = ("a2c", "impala")  # draw nothing on the GPU: equal to the CPU's runs


@pytest.mark.parametrize("name", [n for n in RUNS if not any(x in n for x in FROM_PYTHON)])
def test_captured_updates_equal_those_from_python(tmp_path, name):
    captured = play(RUNS[name], GPU, tmp_path / "captured")
    assert "not captured" not in captured.events, captured.events
    eager = play(replace(RUNS[name], capture_updates=False), GPU, tmp_path / "eager")
    for a, b in zip(captured.parameters, eager.parameters, strict=True):
        print(f"{name}: largest difference {(a - b).abs().max():.2g}")
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", [n for n in RUNS if any(x in n for x in FROM_PYTHON) and "impala" not in n])
def test_a_run_with_the_replay_on_the_host(tmp_path, name):
    assert all(x.isfinite().all() for x in play(RUNS[name], GPU, tmp_path / "run").parameters)


@pytest.mark.parametrize("name", [n for n in RUNS if n.startswith(ON_POLICY)])
def test_a_run_equals_that_on_the_cpu(tmp_path, name):
    gpu, cpu = play(RUNS[name], GPU, tmp_path / "gpu"), play(RUNS[name], "cpu", tmp_path / "cpu")
    for a, b in zip(gpu.parameters, cpu.parameters, strict=True):
        print(f"{name}: largest difference {(a - b).abs().max():.2g}")
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-2)
