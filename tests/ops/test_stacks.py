"""Stacks that stay where their frames lie: a tensor for whoever wants one, the same numbers for a first layer."""

import pytest
import torch

from accel_rl.models.convolution import A3CNet, NatureNet
from accel_rl.models.precision import multiplying_in
from accel_rl.ops import host
from accel_rl.ops.frames import gather_stacks
from accel_rl.ops.stacks import Stacks, stacks

if host.compiled() is None:
    pytest.skip("no compiler built the extension", allow_module_level=True)


def made(S=4, H=84, W=84, N=40, wide=0):
    g = torch.Generator().manual_seed(S)
    frames = torch.randint(0, 256, (30, 6 + wide, H, W), dtype=torch.uint8, generator=g)[:, wide:]
    t, b = torch.randint(0, 30 - S, (N,), generator=g), torch.randint(0, 6, (N,), generator=g)
    return frames, t, b, torch.randint(0, S, (N,), dtype=torch.uint8, generator=g), S


@pytest.mark.parametrize("S", [2, 4, 16])
def test_it_is_the_tensor_for_every_operation(S):
    cells = made(S, 10, 5)
    want, got = gather_stacks(*cells), stacks(*cells)
    assert isinstance(got, Stacks) and isinstance(got, torch.Tensor)
    assert got.shape == want.shape and got.dtype == want.dtype and len(got) == len(want)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    for change in (torch.Tensor.float, torch.Tensor.clone, lambda x: x[3:7, -1], lambda x: x.flatten(1) + 1):
        assert type(change(stacks(*cells))) is torch.Tensor
        assert torch.equal(change(stacks(*cells)), change(want))
    assert (stacks(*cells).numpy() == want.numpy()).all()
    assert torch.equal(torch.cat([stacks(*cells), want]), torch.cat([want, want]))


@pytest.mark.parametrize("wide", [0, 2])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("network", "size"), [(A3CNet, (104, 80)), (NatureNet, (84, 84))])
def test_a_network_reads_and_learns_the_same(network, size, precision, wide):
    torch.manual_seed(0)
    net, cells, found = network(4, *size), made(4, *size, wide=wide), []
    for make in (stacks, gather_stacks):
        net.zero_grad()
        obs = make(*cells)
        with multiplying_in(precision, torch.device("cpu")):
            out = net(obs)
        out.float().square().mean().backward()
        found.append([out.detach(), *[p.grad.clone() for p in net.parameters()]])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_compiled_layer_gathers_nothing(monkeypatch):
    if not host.compiled().has_first_layer():
        pytest.skip("this CPU has no AVX-512")
    obs = stacks(*made())
    monkeypatch.setattr(Stacks, "gathered", lambda self: pytest.fail("gathered"))
    NatureNet(4, 84, 84)(obs).mean().backward()


def test_what_is_no_stack_of_pictures_is_gathered_at_once():
    frames, t, b, age, _ = made()
    assert type(stacks(frames, t, b, age, 1)) is torch.Tensor
    assert type(stacks(frames.float(), t, b, age, 4)) is torch.Tensor
    assert type(stacks(frames.transpose(2, 3), t, b, age, 4)) is torch.Tensor
    assert type(stacks(frames[:, :, :, 0], t, b, age, 4)) is torch.Tensor
