"""The LSTM's outputs for a whole sequence equal those of single steps. The LSTM's state is reset where an episode
begins."""

import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.models.recurrent import RecurrentActorCritic

SPEC = EnvSpec("test", (6,), "float32", 3)
T, N = 7, 4


def test_a_sequence_equals_its_steps():
    torch.manual_seed(0)
    model = RecurrentActorCritic(SPEC, 8)
    obs, first = torch.randn(T, N, 6), torch.rand(T, N) < 0.3
    state = torch.randn(N, model.state_size)
    logits, value, states = model(obs.flatten(0, 1), first, state)
    for n in range(N):
        h, c = state[n : n + 1, :8], state[n : n + 1, 8:]
        for t in range(T):
            if first[t, n]:
                h, c = torch.zeros(1, 8), torch.zeros(1, 8)
            h, c = model.lstm(model.body(obs[t, n : n + 1]), (h, c))
            want_logits, want_value = model.heads(h)
            torch.testing.assert_close(logits.view(T, N, 3)[t, n], want_logits[0])
            torch.testing.assert_close(value.view(T, N)[t, n], want_value[0])
            torch.testing.assert_close(states[t, n], torch.cat([h, c], -1)[0])


def test_gradients_do_not_cross_an_episodes_start():
    model = RecurrentActorCritic(SPEC, 8)
    obs = torch.randn(T, 1, 6, requires_grad=True)
    first = torch.zeros(T, 1, dtype=torch.bool)
    first[3] = True
    _, value, _ = model(obs.flatten(0, 1), first, torch.zeros(1, model.state_size))
    value[5].backward()
    reached = obs.grad.abs().sum((1, 2)) > 0
    assert reached.tolist() == [False, False, False, True, True, True, False]
