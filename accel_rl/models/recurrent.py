"""An LSTM between the body and the heads."""

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import Heads, body
from accel_rl.models.layers import lstm_


class RecurrentActorCritic(nn.Module):
    """A body, an LSTM over time, a policy head and a value head (Mnih et al. 2016, section 5.1: A3C-LSTM).

    The state of an environment is the concatenation of h and c, [2 * units].
    """

    def __init__(self, spec: EnvSpec, units: int, network: str = "a3c"):
        super().__init__()
        self.body, features = body(spec, network)
        self.lstm = nn.LSTMCell(features, units)
        lstm_(self.lstm)
        self.heads = Heads(units, spec.n_actions)
        self.state_size = 2 * units

    def forward(self, obs: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """T steps of n environments, time-major.

        obs [T * n, ...], first [T, n] bool, state [n, 2 units] -> (logits [T * n, A], value [T * n], the state after
        each step [T, n, 2 units]).
        """
        x = self.body(obs).float().view(*first.shape, -1)
        with torch.autocast(x.device.type, enabled=False):  # the recurrent state is computed in float32
            after = self._unroll(x, first, state)
        logits, value = self.heads(after[..., : after.shape[-1] // 2].flatten(0, 1))
        return logits, value, after

    def _unroll(self, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
        """x [T, n, features] -> the state after each step [T, n, 2 units]."""
        goes_on = (~first).to(x.dtype).unsqueeze(-1)
        h, c = state.chunk(2, -1)
        states = []
        for t in range(first.shape[0]):
            h, c = self.lstm(x[t], (h * goes_on[t], c * goes_on[t]))
            states.append(torch.cat([h, c], -1))
        return torch.stack(states)
