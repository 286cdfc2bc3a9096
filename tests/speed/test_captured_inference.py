"""Rollouts with replayed inference equal those of an agent that is called at every step, bit for bit."""

import pytest
import torch
from torch import nn

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent, MaxValueAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.envs.make import make_spec
from accel_rl.kernels.native import compiled
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.q_network import QNetwork
from accel_rl.speed.capturable import register_module
from accel_rl.speed.captured_inference import CapturedInference
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import digest_of, make_sampler

pytestmark = pytest.mark.skipif(compiled() is None or not compiled().vectors, reason="not compiled, or no AVX2")
ENV = env_of(game="breakout", max_episode_steps=40, noop_max=5)
SPEC = make_spec(ENV, training=True)


def policy_agent():
    torch.manual_seed(0)
    return CategoricalPolicyAgent(ActorCritic(SPEC, "a3c"))


def q_agent(epsilon=0.3, **network):
    torch.manual_seed(0)
    return EpsilonGreedyAgent(QNetwork(SPEC, "a3c", **network), epsilon)


def play(agent, n=6, between=lambda agent, i: None, groups=2, **options):
    """Collect n rollouts. Returns the SHA-256 digest of the rollouts, and the sampler's CapturedInference."""
    sampler = make_sampler(ENV, 8, groups, options.pop("workers", 0), **options)
    try:

        def rollouts():
            for i in range(n):
                between(agent, i)
                yield sampler.collect(agent)

        return digest_of(rollouts()), sampler.server._inference
    finally:
        sampler.close()


@pytest.fixture
def called(monkeypatch):
    """called(make, ...) checks that the rollouts of the agent make() are equal with and without captured inference."""

    def both(make, **options):
        with monkeypatch.context() as patch:
            patch.setattr(CapturedInference, "replay", lambda *_: False)
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
    acts = called(lambda: policy_agent(), groups=groups)
    assert len(acts._captures) == groups and not acts._uncapturable


@pytest.mark.parametrize("between", [slow(lambda agent, i: None), slow(anneal), apart])
def test_values_with_an_epsilon_that_changes(called, between):
    acts = called(q_agent, between=between)
    assert len(acts._captures) == 2 and not acts._uncapturable


@pytest.mark.parametrize("layer_norm", ["before", slow("after")])
def test_values_of_a_network_with_layer_norms(called, layer_norm):
    def make():
        torch.manual_seed(0)
        return MaxValueAgent(QNetwork(SPEC, "a3c", layer_norm=layer_norm), 0.3)

    acts = called(make, between=learn)
    assert len(acts._captures) == 2 and not acts._uncapturable


@pytest.mark.slow
def test_in_threads_of_their_own(called):
    acts = called(lambda: policy_agent(), workers=2, threaded_inference=True)
    assert len(acts._captures) == 2


def learn(agent, i):
    with torch.no_grad():
        for p in agent.model.parameters():
            p.mul_(1.01 if i % 2 else 0.98)


def replace(agent, i):
    """Move the agent's parameters to other memory."""
    for p in agent.model.parameters():
        p.data = p.data * 1.01


def test_parameters_that_change_count_at_once(called):
    assert len(called(lambda: policy_agent(), between=learn)._captures) == 2


def test_parameters_may_not_move():
    with pytest.raises(AssertionError, match="moved to other memory"):
        play(policy_agent(), between=replace)


@pytest.mark.parametrize("network", [{"is_dueling": True}, slow({"sigma": 0.5})])
def test_networks_with_more_than_is_compiled_are_called(called, network):
    acts = called(lambda: q_agent(**network))
    assert not acts._captures and acts._uncapturable


class Counting(CategoricalPolicyAgent):
    """An agent whose `act` counts its calls in Python, which a replay would skip."""

    acted = 0

    def act(self, *args):
        self.acted += 1
        return super().act(*args)


def test_an_agent_that_does_more_is_called_at_every_step():
    agent = Counting(policy_agent().model)
    _, acts = play(agent)
    assert agent.acted == 6 * 5 * 2 and not acts._captures


def test_a_network_that_is_listened_to_is_called_at_every_step():
    agent, heard = policy_agent(), []
    agent.model.body.fc_0.register_forward_hook(lambda *_: heard.append(1))
    _, acts = play(agent)
    assert len(heard) == 6 * 5 * 2 and not acts._captures


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
    assert model.body[1].calls == 6 * 5 * 2 and not acts._captures


def test_another_agent_is_recorded_anew(monkeypatch):
    def both():
        """Collect eight rollouts. Two agents alternate after every two rollouts."""
        agents, sampler = (policy_agent(), q_agent()), make_sampler(ENV, 8, 2, 0)
        try:
            return digest_of(sampler.collect(agents[i // 2 % 2]) for i in range(8)), sampler.server._inference
        finally:
            sampler.close()

    got, acts = both()
    monkeypatch.setattr(CapturedInference, "replay", lambda *_: False)
    want, _ = both()
    assert got == want and len(acts._captures) == 2


@register_module
class Doubling(nn.Module):
    """A user's torch module, which register_module declares as safe to capture."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)


def test_a_users_module_can_opt_in(called):
    def make():
        torch.manual_seed(0)
        model = ActorCritic(SPEC)
        model.body = Doubling(model.body)
        return CategoricalPolicyAgent(model)

    assert len(called(make)._captures) == 2


@pytest.mark.parametrize(
    ("make", "options", "why"),
    [
        (lambda: policy_agent(), {"capture": False}, "--sampler.no-capture"),
        (lambda: Counting(policy_agent().model), {}, "Counting is not registered as capturable"),
        slow(lambda: q_agent(sigma=0.5), {}, "no kernel computes"),
        (lambda: q_agent(is_dueling=True), {}, "no kernel computes"),
    ],
)
def test_one_line_says_why_inference_is_not_captured(make, options, why, logged):
    _, acts = play(make(), **options)
    assert len(logged) == 1 and why in logged[0] and "is not captured" in logged[0] and not acts._captures
