"""Acts that are made again as they were recorded equal those that are called at every step, bit for bit."""

import pytest
import torch
from torch import nn

from accel_rl.agents.categorical import CategoricalPolicyAgent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.kernels.activation_cache import ActivationCache
from accel_rl.kernels.native import compiled
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.q_network import QNetwork
from accel_rl.samplers.inference.captured import CapturedInference
from tests.samplers.conftest import digest_of, make_agent, make_sampler

pytestmark = pytest.mark.skipif(
    compiled() is None or not compiled().has_conv_u8(), reason="not compiled, or no AVX-512"
)
ENV = EnvConfig(game="breakout", max_episode_steps=40, noop_max=5)
SPEC = make_spec(ENV, training=True)


def q_agent(epsilon=0.3, **network):
    torch.manual_seed(0)
    return EpsilonGreedyAgent(QNetwork(SPEC, "a3c", **network), epsilon)


def play(agent, n=6, between=lambda agent, i: None, groups=2, **options):
    """(digest of n rollouts, the server's CapturedInference)."""
    sampler = make_sampler(ENV, 8, groups, options.pop("workers", 0), **options)
    try:

        def rollouts():
            for i in range(n):
                between(agent, i)
                yield sampler.collect(agent)

        return digest_of(rollouts()), sampler.server._acts
    finally:
        sampler.close()


@pytest.fixture
def called(monkeypatch):
    """`called(make, ...)`: what the agent does if it is called at every step, then what is played with records."""

    def both(make, **options):
        with monkeypatch.context() as patch:
            patch.setattr(CapturedInference, "calls", lambda *_: None)
            want, _ = play(make(), **options)
        got, acts = play(make(), **options)
        assert got == want
        return acts

    return both


def anneal(agent, i):
    agent.epsilon = 1 / (i + 2)


def apart(agent, i):
    agent.epsilon = torch.linspace(0, 1, 8) / (i + 1)


@pytest.mark.parametrize("groups", [1, 2])
def test_policies(called, groups):
    acts = called(lambda: make_agent(ENV), groups=groups)
    assert len(acts._recorded) == groups and not acts._others


@pytest.mark.parametrize("between", [lambda agent, i: None, anneal, apart])
def test_values_with_an_epsilon_that_changes(called, between):
    acts = called(q_agent, between=between)
    assert len(acts._recorded) == 2 and not acts._others


def test_in_threads_of_their_own(called):
    acts = called(lambda: make_agent(ENV), workers=2, beside=True)
    assert len(acts._recorded) == 2


def learn(agent, i):
    with torch.no_grad():
        for p in agent.model.parameters():
            p.mul_(1.01 if i % 2 else 0.98)


def replace(agent, i):
    """Other memory."""
    for p in agent.model.parameters():
        p.data = p.data * 1.01


@pytest.mark.parametrize("change", [learn, replace])
def test_parameters_that_change_count_at_once(called, change):
    assert len(called(lambda: make_agent(ENV), between=change)._recorded) == 2


@pytest.mark.parametrize(("network", "others"), [({"is_dueling": True}, True), ({"noisy": True}, False)])
def test_networks_with_more_than_is_compiled_are_called(called, network, others):
    acts = called(lambda: q_agent(**network))
    assert not acts._recorded and bool(acts._others) == others  # a noisy agent is not even tried


class Counting(CategoricalPolicyAgent):
    """It does more than compute."""

    acted = 0

    def act(self, *args):
        self.acted += 1
        return super().act(*args)


def test_an_agent_that_does_more_is_called_at_every_step():
    agent = Counting(make_agent(ENV).model)
    _, acts = play(agent)
    assert agent.acted == 6 * 5 * 2 and not acts._recorded


def test_a_network_that_is_listened_to_is_called_at_every_step():
    agent, heard = make_agent(ENV), []
    agent.model.body.fc_0.register_forward_hook(lambda *_: heard.append(1))
    _, acts = play(agent)
    assert len(heard) == 6 * 5 * 2 and not acts._recorded


def test_a_users_layer_is_called_at_every_step():
    class Loud(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x

    torch.manual_seed(0)
    model = ActorCritic(SPEC)
    model.body = nn.Sequential(model.body, Loud())
    _, acts = play(CategoricalPolicyAgent(model))
    assert model.body[1].calls == 6 * 5 * 2 and not acts._recorded


def test_another_agent_is_recorded_anew(monkeypatch):
    def both():
        """Rollouts by one agent, then by the other."""
        agents, sampler = (make_agent(ENV), q_agent()), make_sampler(ENV, 8, 2, 0)
        try:
            return digest_of(sampler.collect(agents[i // 2 % 2]) for i in range(8)), sampler.server._acts
        finally:
            sampler.close()

    got, acts = both()
    monkeypatch.setattr(CapturedInference, "calls", lambda *_: None)
    want, _ = both()
    assert got == want and len(acts._recorded) == 2


def test_what_is_kept_counts_once_a_cell():
    agent, kept = make_agent(ENV), ActivationCache()
    sampler = make_sampler(ENV, 8, 2, 0)
    sampler.server._kept = sampler.server._acts._kept = kept
    for _ in range(4):
        sampler.collect(agent)
        assert set(kept._written.values()) == {5 * 8} and len(kept._written) == 3
    assert len(sampler.server._acts._recorded) == 2
    sampler.close()
