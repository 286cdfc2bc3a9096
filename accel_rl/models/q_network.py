"""Q-networks can be plain, dueling, distributional or noisy."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.body import body_of_streams
from accel_rl.models.convolution import ConvNet
from accel_rl.models.layers import Head, LayerNorm, Linear, activated
from accel_rl.models.networks import find_network
from accel_rl.models.noisy import NoisyLinear, draw_noise, noise_counters
from accel_rl.models.precision import float32_head, float32_if_small
from accel_rl.ops.q_learning import dueling, expectation

VECTOR_HIDDEN = 128


class Stream(nn.Module):
    """Computes outputs [N, outputs] from features [N, F]. The stream has one hidden layer, whose activation and
    initialization are those of `network` (by default ReLU). If `hidden` is 0, the stream has no hidden layer. At the
    start of training, every output is nearly zero."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, sigma: float, layer_norm: LayerNorm = "none",
        network: type[ConvNet] = ConvNet, activation: str = "",
    ):  # fmt: skip
        super().__init__()
        self.noisy, self.inputs = sigma > 0, inputs
        self.hidden: nn.Linear | None = None
        if hidden:
            self.relu = (
                nn.Sequential(*activated(hidden, layer_norm, activation))
                if activation
                else network.activation(hidden, layer_norm)
            )
            self.hidden = (
                NoisyLinear(inputs, hidden, sigma) if self.noisy else network.initialize_(Linear(inputs, hidden))
            )
        width = hidden or inputs
        self.out: nn.Linear = (
            NoisyLinear(width, outputs, sigma) if self.noisy else network.initialize_head_(Head(width, outputs))
        )

    def forward(self, x: Tensor, noise: bool) -> Tensor:
        if (hidden := self.hidden) is not None:
            x = self.relu(float32_if_small(lambda y: hidden(y, noise) if self.noisy else hidden(y), x))
        return float32_head(lambda y: self.out(y, noise), x) if self.noisy else float32_head(self.out, x)


class QNetwork(nn.Module):
    """Action values q [N, A] from obs [N, ...] (Mnih et al. 2015).

    If `is_dueling` is true, two streams follow the convolutions (Wang et al. 2016), and the gradient that flows from
    the streams into the shared layers is scaled by 2^-1/2. If `sigma` is above 0, the fully connected layers are noisy
    (Fortunato et al. 2018).
    """

    def __init__(
        self,
        spec: EnvSpec,
        network: str,
        is_dueling: bool = False,
        sigma: float = 0.0,
        atoms: int = 1,
        hidden: tuple[int, ...] = (),
        layer_norm: LayerNorm = "none",
        activation: str = "",
        normalize: bool = False,
    ):
        """`network` is `nature`, `a3c`, or the name of a user's class (`find_network`). `hidden` are the widths of the
        fully connected layers, by default those of the network. The last width is the width of each stream's hidden
        layer."""
        super().__init__()
        self.n_actions, self.mask = spec.n_actions, spec.mask
        self.atoms = atoms
        self.noisy = sigma > 0
        self.body, inputs, width = self.build_body(spec, network, layer_norm, hidden, activation, normalize)
        cls = find_network(network)
        kind = cls if spec.picture and issubclass(cls, ConvNet) else ConvNet
        self.advantage = Stream(inputs, width, spec.n_actions * atoms, sigma, layer_norm, kind, activation)
        self.value = Stream(inputs, width, atoms, sigma, layer_norm, kind, activation) if is_dueling else None
        self.first_counter: Tensor
        self.counter_stride: Tensor
        if self.noisy:
            first, stride = noise_counters(self._noisy_layers())
            self.register_buffer("first_counter", first, persistent=False)
            self.register_buffer("counter_stride", stride, persistent=False)

    def build_body(
        self, spec: EnvSpec, network: str, layer_norm: LayerNorm, hidden: tuple[int, ...], activation: str,
        normalize: bool,
    ) -> tuple[nn.Module, int, int]:  # fmt: skip
        """Return the body, its number of features, and the width of the streams' hidden layers."""
        return body_of_streams(spec, network, layer_norm, hidden, activation, normalize, VECTOR_HIDDEN)

    def outputs(self, obs: Tensor, noise: bool = True) -> Tensor:
        """Outputs [N, A, atoms] from obs [N, ...]. If `noise` is true, the network uses the noise that the last call of
        `resample` drew, and otherwise the mean weights."""
        x = self.body(obs)
        if self.value is not None and x.requires_grad:
            x.register_hook(lambda grad: grad * 2**-0.5)
        return self.heads(x, noise)

    def heads(self, x: Tensor, noise: bool) -> Tensor:
        """Outputs [N, A, atoms] from features x [N, F]."""
        out = self.advantage(x, noise).view(-1, self.n_actions, self.atoms)
        if self.value is None:
            return out
        return dueling(self.value(x, noise).view(-1, 1, self.atoms), out)

    def q(self, obs: Tensor, noise: bool = True) -> Tensor:
        """Action values [N, A] from obs [N, ...]."""
        return self.outputs(obs, noise).squeeze(-1)

    forward = q

    def resample(self, seed: Tensor) -> None:
        """Draw new noise for every noisy layer, as a function of a seed [] int64."""
        draw_noise(self._noisy_layers(), self.first_counter + seed * self.counter_stride)

    def _noisy_layers(self) -> list[NoisyLinear]:
        return [module for module in self.modules() if isinstance(module, NoisyLinear)]


class CategoricalQNetwork(QNetwork):
    """Logits [N, A, Z] of a distribution over Z returns from v_min to v_max, from obs [N, ...] (Bellemare et al.
    2017)."""

    def __init__(self, spec: EnvSpec, network: str, atoms: int, v_min: float, v_max: float, **options: Any):
        super().__init__(spec, network, atoms=atoms, **options)
        self.support: Tensor
        self.register_buffer("support", torch.linspace(v_min, v_max, atoms), persistent=False)

    def q(self, obs: Tensor, noise: bool = True) -> Tensor:
        return expectation(self.outputs(obs, noise), self.support)

    forward = QNetwork.outputs


class QuantileNetwork(QNetwork):
    """Computes, from obs [N, ...], the quantiles [N, A, Z] of the returns of actions (Dabney et al. 2018). The value of
    an action is the mean of its quantiles."""

    def q(self, obs: Tensor, noise: bool = True) -> Tensor:
        return self.outputs(obs, noise).mean(-1)

    forward = QNetwork.outputs
