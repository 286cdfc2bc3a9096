"""The class Linear equals nn.Linear, and writes its gradient directly into the flat gradient of all parameters."""

import copy

import pytest
import torch
from torch import nn

from accel_rl.envs.make import make_spec
from accel_rl.kernels.linear import head_linear, hidden_linear
from accel_rl.kernels.native import compiled
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.layers import Linear
from accel_rl.models.q_network import QNetwork
from accel_rl.optim.flat import FlatParameters
from tests.env_settings import env_of


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.wide = nn.Linear(5, 7), kind(7, 3)

    def forward(self, x, times=1):
        x = torch.tanh(self.first(x))
        return sum(self.wide(x * k).square().sum() for k in range(1, times + 1))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_gradients_are_those_of_a_plain_layer_however_often_it_is_used(times):
    ours, plain = Net(Linear), Net(nn.Linear)
    flats = [FlatParameters(net) for net in (ours, plain)]
    for turn in range(3):
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(turn))
        for net, flat in zip((ours, plain), flats, strict=True):
            flat.grad.fill_(9.0)  # The backward pass must overwrite the old gradient, here 9.
            flat.backward(net(x, times))
        torch.testing.assert_close(flats[0].grad, flats[1].grad, rtol=1e-6, atol=1e-6)


def test_the_gradient_is_written_in_place(monkeypatch):
    net = Net(Linear)
    flat, copied = FlatParameters(net), []
    copy = torch._foreach_copy_

    def noted(to, of):
        copied.extend(x.shape for x in to)
        copy(to, of)

    monkeypatch.setattr(torch, "_foreach_copy_", noted)
    flat.backward(net(torch.randn(4, 5)))
    assert net.wide.weight.shape not in copied
    assert net.first.weight.shape in copied


def test_a_pass_that_nothing_comes_back_to_and_a_second_backward_do_no_harm():
    ours, plain = Net(Linear), Net(nn.Linear)
    x = torch.randn(4, 5)
    for net in (ours, plain):
        flat = FlatParameters(net)
        net(x)
        flat.backward(net(x))
        once = flat.grad.clone()
        net(2 * x).backward()  # adds, as ever
        net.found = once, flat.grad.clone()
    torch.testing.assert_close(ours.found, plain.found)
    assert not torch.equal(*ours.found)


def test_no_gradient_no_trace_and_copies_are_plain():
    net = Net(Linear)
    FlatParameters(net)
    with torch.no_grad():
        net(torch.randn(4, 5))
    assert not hasattr(net.wide.weight, "pending_uses")
    twin = copy.deepcopy(net)
    assert not hasattr(twin.wide.weight, "flat_grad")
    twin(torch.randn(4, 5)).backward()
    assert not hasattr(twin.wide.weight, "pending_uses")


@pytest.mark.parametrize("n", [1, 3, 16, 33, 47, 48])
@pytest.mark.parametrize("layer", [hidden_linear, head_linear])
def test_any_number_of_rows(n, layer):
    x, weight, bias = torch.randn(n, 40), torch.randn(24, 40), torch.randn(24)
    torch.testing.assert_close(layer(x, weight, bias), nn.functional.linear(x, weight, bias), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(compiled() is None or not compiled().vectors, reason="not compiled, or no AVX2")
@pytest.mark.parametrize("network", ["a3c", "nature"])
def test_an_observation_gives_the_same_bits_in_any_batch(network):
    """Equal bits in batches of any size make rollouts independent of the numbers of groups, workers and threads."""
    spec = make_spec(env_of(game="pong", frame="84x84"), training=True)
    obs = torch.randint(256, (64, 4, 84, 84), dtype=torch.uint8)
    policy, values = ActorCritic(spec, network), QNetwork(spec, network)
    threads = torch.get_num_threads()
    try:
        with torch.no_grad():
            torch.set_num_threads(1)
            whole = *policy(obs), values.q(obs)
            for n, count in ((1, 1), (2, 2), (3, 1), (7, 2), (16, 2), (33, 1), (50, 2)):
                torch.set_num_threads(count)
                some = *policy(obs[:n]), values.q(obs[:n])
                assert all(torch.equal(a, b[:n]) for a, b in zip(some, whole, strict=True)), n
    finally:
        torch.set_num_threads(threads)
