"""The state of a random generator is restored on a device of the same kind, and replaced by a seed on another kind."""

import pytest
import torch

from accel_rl.checkpoints import generator_state
from accel_rl.checkpoints.generator_state import restore, restore_default, seed_from

CUDA = torch.tensor([1 << 40, 4 * 300]).view(torch.uint8)  # The state of a CUDA generator: a seed and a counter.


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(generator_state, "say_once", lines.append)
    return lines


def drawn(generator=None):
    return torch.rand(8, generator=generator)


def test_a_state_of_the_same_kind_is_continued(said):
    one, two = torch.Generator().manual_seed(3), torch.Generator()
    drawn(one)
    restore(two, one.get_state())
    assert torch.equal(drawn(one), drawn(two)) and not said


def test_a_state_of_another_kind_gives_a_seed(said):
    one, two, other = (torch.Generator().manual_seed(n) for n in range(3))
    restore(one, CUDA)
    restore(two, CUDA)
    restore(other, CUDA + 1)
    first = drawn(one)
    assert torch.equal(first, drawn(two)) and not torch.equal(first, drawn(other))
    assert len(said) == 3 and all("on another kind of device" in line and "\n" not in line for line in said)
    assert 0 <= seed_from(CUDA) < 2**63


def test_default_generators_from_a_gpu_to_a_cpu(said):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    expected = drawn()
    restore_default(before, CUDA, "cpu")
    assert torch.equal(drawn(), expected) and len(said) == 1
    restore_default(before, None, "cpu")
    assert torch.equal(drawn(), expected) and len(said) == 1


def test_default_generators_from_a_cpu_to_a_gpu(simulated_gpu, said):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    found = []
    for gpu in (None, None, CUDA):
        drawn()
        restore_default(state, gpu, "sim:0")
        found.append(torch.rand(8, device="sim:0").cpu())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert len(said) == 2  # no further message
    restore_default(state, CUDA, "sim:0")
    assert torch.equal(torch.get_device_module("sim").get_rng_state(0), CUDA)
