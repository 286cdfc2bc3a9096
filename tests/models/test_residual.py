"""ImpalaNet equals the network in figure 3 of Espeholt et al. 2018, written with torch's functions."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from accel_rl.models.networks import find_network
from accel_rl.models.residual import ImpalaNet
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.algos.made_up import SPEC


def reference(net, obs, place):
    """Espeholt et al. 2018, figure 3: three sections (convolution, pooling, two residual blocks), then 256 outputs."""

    def activated(x, relu):
        if place == "before-channels":
            images = x.dim() == 4
            x = x.permute(0, 2, 3, 1) if images else x
            x = torch.relu(F.layer_norm(x, x.shape[-1:], relu.before.weight, relu.before.bias, 1e-6))
            return x.permute(0, 3, 1, 2) if images else x
        norm = getattr(relu, place) if place != "none" else None
        if place == "before":
            x = F.layer_norm(x, x.shape[1:], norm.weight, norm.bias)
        x = torch.relu(x)
        return F.layer_norm(x, x.shape[1:], norm.weight, norm.bias) if place == "after" else x

    x = obs / 255
    for section in net.convolutions:
        x = F.max_pool2d(F.conv2d(x, section.conv.weight, section.conv.bias, padding=1), 3, stride=2, padding=1)
        for block in section.blocks:
            y = F.conv2d(activated(x, block.relu_0), block.conv_0.weight, block.conv_0.bias, padding=1)
            if place == "before-channels":
                y = activated(y, block.conv_0.relu)
            else:
                y = activated(y.permute(0, 2, 3, 1), getattr(block.conv_0, "relu", None)).permute(0, 3, 1, 2)
            x = x + F.conv2d(y, block.conv_1.weight, block.conv_1.bias, padding=1)
    x = torch.relu(x).permute(0, 2, 3, 1).flatten(1)
    return activated(F.linear(x, net.fc_0.weight, net.fc_0.bias), net.relu_0)


@pytest.mark.parametrize("place", ["none", "before", "after", "before-channels"])
@pytest.mark.parametrize(("name", "channels"), [("impala", 32), ("impala-2", 64)])
def test_it_is_the_papers(name, channels, place):
    torch.manual_seed(0)
    net = find_network(name)(4, 33, 27, layer_norm=place)
    for parameter in net.parameters():
        if parameter.dim() < 4:
            torch.nn.init.normal_(parameter, 0.5, 0.2)
    obs = torch.randint(256, (3, 4, 33, 27), dtype=torch.uint8)
    out = net(obs)
    torch.testing.assert_close(out, reference(net, obs, place), atol=1e-3, rtol=1e-3)
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert net.convolutions[-1].conv.out_channels == channels and out.shape == (3, 256)


def test_a_width_that_does_not_exist_is_one_line():
    with pytest.raises(ConfigError, match="impala-2 to impala-16"):
        find_network("impala-40")


@pytest.mark.parametrize("algorithm", ["ppo", "pqn", "dqn"])
def test_every_algorithm_takes_it(algorithm):
    algo = replace(default_config(algorithm).algo, network="impala")
    algo.check()
    agent = find_algorithm(algorithm)(algo, SPEC, T=4, B=8).agent
    assert any(isinstance(m, ImpalaNet) for m in agent.model.modules())
