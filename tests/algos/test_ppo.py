"""Edge cases of PPO. PPO's equations, minibatches and early stop are tested in test_options.py."""

from math import nan

import pytest
import torch

from accel_rl.algos import policy_gradient
from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.optim.flat import FlatParameters
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout


def build(config, seed=0):
    torch.manual_seed(seed)
    algo = PPO(config, SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


@pytest.mark.parametrize("invalid", [False, True])
def test_every_valid_cell_once_an_epoch_and_minibatches_of_even_size(invalid):

    r = rollout(invalid=invalid)
    algo, _ = build(PPOConfig(minibatch=7, epochs=3))
    act_over(algo, r)
    ingest(algo, r)
    algo.rollout.recorded["value"] = torch.arange(T * B).view(T, B).float()  # marks the cells
    batches = list(algo.batches())
    sizes = {len(b.action) for b in batches}
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= 7
    seen = torch.cat([b.recorded["value"] for b in batches]).long().sort().values
    want = r.valid.reshape(-1).nonzero().squeeze(-1).repeat_interleave(3)
    assert torch.equal(seen, want)


@pytest.mark.parametrize(
    ("measured", "rates"),
    [(0.021, (1 / 2, 1 / 4, 1 / 128)), (0.0049, (2, 4, 16)), (0.019, (1, 1, 1)), (0.006, (1, 1, 1)), (nan, (1, 1, 1))],
)
def test_the_learning_rate_follows_the_kl_divergence_between_bounds(monkeypatch, measured, rates):
    config = PPOConfig(learning_rate=1e-3, learning_rate_schedule="kl")
    algo, other = build(config)[0], build(config)[0]
    monkeypatch.setattr(PPO, "measured_kl", lambda _: measured)
    seen = []
    for _ in range(20):
        algo.after_phase()
        seen.append(algo.schedules(0.5, 0)["learning_rate"] / 1e-3)
    assert (seen[0], seen[1], seen[-1]) == pytest.approx(rates)
    other.load_state_dict(algo.state_dict())
    assert other.schedules(0.9, 0) == algo.schedules(0.9, 0)


def test_other_schedules_measure_no_kl_divergence(monkeypatch):
    algo, _ = build(PPOConfig(learning_rate_schedule="constant"))
    monkeypatch.delattr(policy_gradient.PolicyGradient, "measured_kl")
    algo.after_phase()
    assert algo.rate_share(0.5) == 1


def test_the_kl_divergence_of_parts_is_that_of_the_rollout(monkeypatch):
    algo, flat = build(PPOConfig())
    r = rollout(invalid=True)
    act_over(algo, r)
    ingest(algo, r)
    assert algo.measured_kl() == pytest.approx(0, abs=1e-9)
    with torch.no_grad():
        flat.data.add_(0.05 * torch.randn(len(flat.data)))
    whole = algo.measured_kl()
    monkeypatch.setattr(policy_gradient, "CHUNK", 7)
    assert whole > 1e-5 and algo.measured_kl() == pytest.approx(whole, rel=1e-5)


def test_a_rollout_without_a_valid_cell_gives_no_update():
    r = rollout()
    r.valid[:] = False
    algo, _ = build(PPOConfig())
    act_over(algo, r)
    ingest(algo, r)
    assert list(algo.batches()) == []
