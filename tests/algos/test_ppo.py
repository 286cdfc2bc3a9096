"""Edges of PPO. Its equations, minibatches and early stop: test_options.py."""

import pytest
import torch

from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.optim.flat import FlatParameters
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout


def build(config, seed=0):
    torch.manual_seed(seed)
    algo = PPO(config, SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


@pytest.mark.parametrize("invalid", [False, True])
def test_every_valid_cell_once_an_epoch_and_minibatches_of_even_size(invalid):
    """test_options.py plays rollouts with invalid cells alone."""
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


def test_a_rollout_without_a_valid_cell_gives_no_update():
    r = rollout()
    r.valid[:] = False
    algo, _ = build(PPOConfig())
    act_over(algo, r)
    ingest(algo, r)
    assert list(algo.batches()) == []
