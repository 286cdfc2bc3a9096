"""The Triton kernel and the torch operator that gather transitions give the results of plain torch operations."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.kernels import replay_gather
from accel_rl.kernels.replay_gather import gather_transitions
from accel_rl.kernels.ring_arrays import gather
from accel_rl.replays.ring import FrameRing, NStep
from accel_rl.text import notes
from tests.replays.made_up import Simulators


@pytest.fixture(scope="module")
def ring_and_cells():
    sims = Simulators(3, 5, 0)
    ring = FrameRing(sims.spec, 3, 90, NStep(1))
    for _ in range(8):
        ring.append(sims.rollout())
    return ring._arrays(), ring.nth(torch.tensor([3, 17, 20]))


@pytest.mark.slow
@pytest.mark.needs("triton")
def test_the_triton_kernel_equals_plain_operations_in_tritons_interpreter():
    command = [sys.executable, "-m", "tests.kernels.interpret_gather"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2])
    assert done.returncode == 0 and "38 cases are equal" in done.stdout, done.stderr


def test_the_operator_obeys_torchs_rules(ring_and_cells):
    ring, cell = ring_and_cells
    torch.library.opcheck(gather_transitions, (*ring, cell))
    torch.library.opcheck(gather_transitions, (*ring, cell[:1]))


@pytest.mark.parametrize("may_overlap", [False, True])
def test_results_in_one_window_are_the_same(ring_and_cells, may_overlap):
    ring, cell = ring_and_cells
    for x, y in zip(gather(ring, cell, may_overlap), gather_transitions(*ring, cell), strict=True):
        assert torch.equal(x, y)


def test_without_triton_a_gpu_uses_plain_operations(ring_and_cells, monkeypatch):
    ring, cell = ring_and_cells
    monkeypatch.setattr(notes, "_said", set())
    monkeypatch.setattr(replay_gather.importlib.util, "find_spec", lambda name: None)
    replay_gather._launcher.cache_clear()
    with pytest.warns(UserWarning, match="Triton is not installed"):
        found = replay_gather._on_cuda(*ring, cell)
    replay_gather._launcher.cache_clear()
    assert all(torch.equal(x, y) for x, y in zip(found, gather(ring, cell), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "stack", "shape"), [(1, 4, (84, 84)), (3, 4, (7, 5)), (3, 1, (27,))])
def test_the_triton_kernel_on_a_gpu(n, stack, shape):
    spec = EnvSpec("made up", shape, "uint8" if stack > 1 else "float32", 6, stack)
    torch.manual_seed(0)
    ring = FrameRing(spec, 3, 90, NStep(n), "cuda")
    ring.frames.copy_(torch.randint(0, 256, ring.frames.shape))
    ring.age.random_(0, 4)
    ring.flags.random_(0, 16)
    ring.reward.normal_()
    cell = torch.randint(4 * 3, 500, (64,), device="cuda")
    for x, y in zip(gather_transitions(*ring._arrays(), cell), gather(ring._arrays(), cell), strict=True):
        assert torch.equal(x, y)
    assert not replay_gather._failures
