"""Recurrent networks have an LSTM between the body and the heads."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import Heads, policy_of
from accel_rl.models.body import body
from accel_rl.models.layers import Head, lstm_, orthogonal_
from accel_rl.models.precision import float32_head


class RecurrentBody(nn.Module):
    """A body that is followed by an LSTM (Mnih et al. 2016, section 5.1: A3C-LSTM). An environment's recurrent state is
    the concatenation of the LSTM's h and c, [2 * units]."""

    def __init__(self, spec: EnvSpec, units: int, network: str = "a3c", **layers: Any):
        super().__init__()
        self.body, features = body(spec, network, **layers)
        self.lstm = nn.LSTMCell(features, units)
        lstm_(self.lstm)
        self.state_size = 2 * units

    def unroll(self, obs: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """T steps of n environments, time-major. From obs [T * n, ...], first [T, n] bool and state [n, 2 units],
        return features [T * n, units] and the state after each step [T, n, 2 units]."""
        x = self.body(obs).float().view(*first.shape, -1)
        with torch.autocast(x.device.type, enabled=False):  # The LSTM computes its recurrent state in float32.
            after = lstm_steps(self.lstm, x, first, state)
        return after[..., : after.shape[-1] // 2].flatten(0, 1), after


def lstm_steps(lstm: nn.LSTMCell, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
    """State after each step [T, n, 2 units] from x [T, n, features], first [T, n] bool and state [n, 2 units]."""
    goes_on = (~first).to(x.dtype).unsqueeze(-1)
    h, c = state.chunk(2, -1)
    states = []
    for t in range(first.shape[0]):
        h, c = lstm(x[t], (h * goes_on[t], c * goes_on[t]))
        states.append(torch.cat([h, c], -1))
    return torch.stack(states)


class RecurrentActorCritic(RecurrentBody):
    """A policy head and a value head after an LSTM."""

    def __init__(self, spec: EnvSpec, units: int, network: str = "a3c", **layers: Any):
        super().__init__(spec, units, network, **layers)
        self.heads = Heads(units, policy_of(spec))

    def forward(self, obs: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From obs [T * n, ...], first [T, n] bool and state [n, 2 units], return logits [T * n, A], value [T * n] and
        the state after each step [T, n, 2 units]."""
        x, after = self.unroll(obs, first, state)
        logits, value = self.heads(x)
        return logits, value, after


class RecurrentQNetwork(RecurrentBody):
    """A head of action values after an LSTM (Hausknecht & Stone 2015)."""

    noisy = False

    def __init__(self, spec: EnvSpec, units: int, network: str = "a3c", **layers: Any):
        super().__init__(spec, units, network, **layers)
        self.n_actions, self.mask = spec.n_actions, spec.mask
        self.value = orthogonal_(Head(units, spec.n_actions), 0.01)

    def forward(self, obs: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """From obs [T * n, ...], first [T, n] bool and state [n, 2 units], return q [T * n, A] and the state after each
        step [T, n, 2 units]."""
        x, after = self.unroll(obs, first, state)
        return float32_head(self.value, x), after
