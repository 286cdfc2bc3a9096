"""A policy network without a value output: the agent samples actions from the softmax of the logits, or with
probability epsilon uniformly."""

import pytest
import torch
from torch import nn

from accel_rl.agents.policy import PolicyAgent

LOGITS = torch.tensor([0.0, 1.0, -1.0, 2.0])
N = 200_000


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_actions_have_the_probabilities_of_the_mixture(epsilon):
    agent = PolicyAgent(nn.Identity(), n_actions=4)
    agent.epsilon = epsilon
    uniform = torch.rand(N, generator=torch.Generator().manual_seed(0))
    obs = LOGITS.expand(N, 4) if agent.needs_obs else None
    action, recorded = agent.act(obs, uniform)
    expected = epsilon / 4 + (1 - epsilon) * torch.softmax(LOGITS, -1)
    assert recorded == {} and agent.needs_obs == (epsilon < 1)
    # The tolerance is four standard deviations of the frequency of an action in N sampled actions.
    assert torch.all((action.bincount(minlength=4) / N - expected).abs() < 4 * (expected * (1 - expected) / N).sqrt())


def test_evaluations_never_act_at_random_and_greedy_ones_take_the_largest():
    agent = PolicyAgent(nn.Identity(), n_actions=4)
    agent.epsilon = 1.0
    other = PolicyAgent(nn.Identity(), n_actions=4)
    other.load_state_dict(agent.state_dict())
    assert other.epsilon == 1.0 and agent.evaluating().needs_obs
    assert set(agent.evaluating(greedy=True).act(LOGITS.expand(9, 4), torch.rand(9))[0].tolist()) == {3}
