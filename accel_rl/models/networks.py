"""The convolutional networks of papers, which --algo.network names."""

import re
from typing import Any

from torch import nn

from accel_rl.models.convolution import ConvNet
from accel_rl.models.hadamax import HadamaxNet
from accel_rl.models.layers import Layer, variance_scaling_
from accel_rl.models.residual import BTRNet, ImpalaNet, impala_network
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.imports import failure, import_user_module, parse_call


class A3CNet(ConvNet):
    """The two-convolution network of Mnih et al. 2016, as Stooke & Abbeel section 5.1 use it on 104x80.

    The layers are 16 filters of 8x8 with stride 4, 32 of 4x4 with stride 2 and padding 1, and 256 fully connected
    units. Maps obs [N, S, H, W] uint8 to [N, 256]; 0.90 M parameters at 104x80x4."""

    layers = ((16, 8, 4, 0), (32, 4, 2, 1))
    hidden = 256


class DQNNet(ConvNet):
    """The three-convolution network of Mnih et al. 2015, as Stooke & Abbeel section 5.1 use it on 104x80.

    The layers are 32 filters of 8x8 with stride 4, 64 of 4x4 with stride 2 and padding 1, 64 of 3x3 with stride 1 and
    padding 1, and 512 fully connected units. Maps obs [N, S, H, W] uint8 to [N, 512]."""

    layers = ((32, 8, 4, 0), (64, 4, 2, 1), (64, 3, 1, 1))


class NatureNet(ConvNet):
    """The network of Mnih et al. 2015, without padding. Maps obs [N, S, H, W] uint8 to [N, 512]; 1.68 M parameters at
    84x84x4."""

    layers = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))


class NatureSameNet(ConvNet):
    """The network of Mnih et al. 2015 with Dopamine's padding (84x84 becomes 21x21, 11x11 and 11x11) and the initial
    weights of its C51, Rainbow, QR-DQN and IQN. Maps obs [N, S, H, W] uint8 to [N, 512]; 4.04 M parameters at
    84x84x4."""

    layers = ((32, 8, 4, "same"), (64, 4, 2, "same"), (64, 3, 1, "same"))

    @classmethod
    def initialize_(cls, layer: Layer) -> Layer:
        return variance_scaling_(layer, 3**-0.5, "fan_in", "uniform")

    initialize_head_ = initialize_


class DataEfficientNet(ConvNet):
    """The network of van Hasselt et al. 2019, appendix E. Maps obs [N, S, H, W] uint8 to [N, 256], and needs a sixth of
    the computation of `NatureNet`."""

    layers = ((32, 5, 5, 0), (64, 5, 5, 0))
    hidden = 256


class MinAtarNet(ConvNet):
    """The network of Young & Tian 2019, arXiv:1903.03176, for pictures of 10x10: 16 filters of 3x3 and 128 fully
    connected units. Maps obs [N, S, H, W] to [N, 128]."""

    layers = ((16, 3, 1, 0),)
    hidden = 128


NETWORKS: dict[str, type[ConvNet]] = {
    "a3c": A3CNet, "dqn": DQNNet, "nature": NatureNet, "nature-same": NatureSameNet,
    "data-efficient": DataEfficientNet, "impala": ImpalaNet, "btr": BTRNet, "hadamax": HadamaxNet,
    "minatar": MinAtarNet,
}  # fmt: skip
SMALL = "minatar"  # The network for pictures that are too small for the other entries of NETWORKS
MOST_WIDTH = 16


def find_network(name: str) -> type[nn.Module]:
    """The class of the network `name`, such as `nature`, `impala-4`, or a user's `my_module:MyNet` or
    `my_module:MyNet(width=64)`. Raises ConfigError if `name` names no network."""
    if name in NETWORKS:
        return NETWORKS[name]
    if (wide := re.fullmatch(r"impala-(\d+)", name)) and 1 <= int(wide[1]) <= MOST_WIDTH:
        return impala_network(int(wide[1]))
    module_name, colon, attribute = name.partition("(")[0].partition(":")
    allowed = f"{', '.join(NETWORKS)}, impala-2 to impala-{MOST_WIDTH} or module:Class"
    if not colon:
        raise ConfigError(f"--algo.network {name}: must be {allowed}{nearest(name, NETWORKS)}")
    try:
        module = import_user_module(module_name)
    except Exception as e:
        raise ConfigError(f"--algo.network {name}: it cannot be imported ({failure(e)})") from e
    cls = getattr(module, attribute, None)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        why = f"{module_name} has no {attribute}{nearest(attribute, dir(module))}" if cls is None else "another object"
        raise ConfigError(f"--algo.network {name}: must be a class of modules (torch.nn.Module); {why}")
    if keywords_of(name) and issubclass(cls, ConvNet):
        raise ConfigError(f"--algo.network {name}: a subclass of ConvNet has no arguments")
    return cls


def fits(name: str, height: int, width: int) -> bool:
    """Whether pictures are large enough for a network. A user's module may process pictures of any size."""
    cls = find_network(name)
    return not issubclass(cls, ConvNet) or min(height, width) >= cls.least_size()


def keywords_of(name: str) -> dict[str, Any]:
    """The keyword arguments in a network's name: {"width": 64} for `my_module:MyNet(width=64)`. Raises ConfigError."""
    return parse_call(name, "--algo.network", "module:Class")[1]
