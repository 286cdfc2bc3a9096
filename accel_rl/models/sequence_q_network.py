"""A Q-network whose LSTM also reads the last action and the last reward."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.body import body
from accel_rl.models.layers import LayerNorm, lstm_
from accel_rl.models.q_network import QNetwork
from accel_rl.models.recurrent import lstm_steps


class SequenceQNetwork(QNetwork):
    """Action values from an LSTM over the body's features, the last action (one-hot) and the last reward (Kapturowski
    et al. 2019, section 2.3). At an episode's first step, the last action and the last reward are zeros.

    An environment's recurrent state is the concatenation [2 * units + 2] of the LSTM's h and c, the last action and the
    last reward. `forward` returns only h and c; the caller, which steps the environments, writes the last action and
    the last reward.
    """

    def __init__(self, spec: EnvSpec, network: str, units: int, **options: Any):
        self.units = units
        super().__init__(spec, network, **options)
        self.state_size = 2 * units + 2

    def build_body(
        self, spec: EnvSpec, network: str, layer_norm: LayerNorm, hidden: tuple[int, ...], activation: str,
        normalize: bool,
    ) -> tuple[nn.Module, int, int]:  # fmt: skip
        net, features = body(spec, network, layer_norm, hidden[:-1], activation, normalize)
        self.lstm = lstm_(nn.LSTMCell(features + spec.n_actions + 1, self.units))
        return net, self.units, hidden[-1] if hidden else self.units

    def unroll(self, obs: Tensor, first: Tensor, state: Tensor, last: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """T steps of n environments, time-major. From obs [T * n, ...], first [T, n] bool, state [n, 2 units + 2], and
        the action and reward before each step `last` [T, n, 2], return features [T * n, units], and h and c after each
        step [T, n, 2 units]. Without `last`, T must be 1, because the state contains only one action and one reward."""
        assert last is not None or len(first) == 1
        x = self.body(obs).float().view(*first.shape, -1)
        with torch.autocast(x.device.type, enabled=False):  # The LSTM computes its recurrent state in float32.
            x = torch.cat([x, self._encoded(state[None, :, -2:] if last is None else last, first)], -1)
            after = lstm_steps(self.lstm, x, first, state[:, :-2])
        return after[..., : self.units].flatten(0, 1), after

    def forward(  # type: ignore[override]
        self, obs: Tensor, first: Tensor, state: Tensor, last: Tensor | None = None, noise: bool = True
    ) -> tuple[Tensor, Tensor]:
        """q [T * n, A], and h and c after each step [T, n, 2 units], from the arguments of `unroll`."""
        x, after = self.unroll(obs, first, state, last)
        return self.heads(x, noise).squeeze(-1), after

    def _encoded(self, last: Tensor, first: Tensor) -> Tensor:
        """The one-hot actions and the rewards [T, n, A + 1], from the last actions and rewards [T, n, 2]."""
        action, reward = last.unbind(-1)
        one_hot = action.unsqueeze(-1) == torch.arange(self.n_actions, device=last.device)
        # A reward that is not finite is replaced by 0, or the LSTM's state would stay NaN after the episode.
        known = ~first & reward.isfinite()
        values = torch.cat([one_hot.float(), reward.unsqueeze(-1)], -1)
        return torch.where(known.unsqueeze(-1), values, 0)
