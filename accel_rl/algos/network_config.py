"""The settings of an algorithm's network."""

from dataclasses import dataclass
from typing import Any, Literal

from accel_rl.models.layers import LayerNorm
from accel_rl.models.networks import find_network
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class NetworkConfig:
    """The first base class of the settings of every algorithm with networks of `accel_rl.models`."""

    network: str = "a3c"
    """Network for image observations: `a3c` with two convolutions (Mnih et al. 2016), `dqn` with three and padding
    (Stooke & Abbeel), `nature` with three (Mnih et al. 2015), `nature-same` with three, as Dopamine,
    `data-efficient` with two that do not overlap (van Hasselt et al. 2019), `impala` with residual blocks (Espeholt et
    al. 2018), `impala-4` with 4 times as many channels, `btr` with spectral norms (Clark et al. 2024), `hadamax` with
    products of convolutions (Kooi et al. 2025), and `minatar` with one for small pictures (Young & Tian 2019).
    `module:Class` is a user's module for any observation, built as Class(observation_shape), or a subclass of
    ConvNet."""
    layer_norm: LayerNorm = "none"
    """Position of the layer norm: before or after each activation of the network's body. With `before-channels`, the
    norm is over the channels of each pixel instead of all features of a layer."""
    hidden: tuple[int, ...] = ()
    """Widths of the network's fully connected layers, such as 64,64. In value learners, the last width is that of each
    stream. The default depends on the network: 64,64 for vectors (128,128 in value learners), one layer after
    convolutions, and none after a user's module."""
    activation: Literal["", "relu", "tanh", "elu", "gelu", "silu"] = ""
    """Activation of the fully connected layers. The default is tanh for vectors, and otherwise depends on the network
    (mostly ReLU)."""

    normalize: bool = False
    """Vector observations are normalized by the mean and the standard deviation of all observations in updates so far,
    and clipped to +- 10. The mean and the standard deviation are stored with the network's parameters, so evaluations,
    resumed runs and exported models use them."""

    @property
    def layers(self) -> dict[str, Any]:
        return {
            "layer_norm": self.layer_norm,
            "hidden": self.hidden,
            "activation": self.activation,
            "normalize": self.normalize,
        }

    def check(self) -> None:
        super().check()  # type: ignore[misc]  # The next class is that of an algorithm's other settings.
        find_network(self.network)
        if any(width < 1 for width in self.hidden):
            raise ConfigError(f"--algo.hidden {','.join(map(str, self.hidden))}: must be widths of at least 1")
