"""Edges of PPO. Its equations, minibatches and early stop: test_options.py."""

import pytest
import torch

from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.optim.flat import FlatParameters
from accel_rl.text.errors import ConfigError
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout


def build(config, seed=0):
    torch.manual_seed(seed)
    algo = PPO(config, SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


def test_a_rollout_without_a_valid_cell_gives_no_update():
    r = rollout()
    r.valid[:] = False
    algo, _ = build(PPOConfig())
    act_over(algo, r)
    ingest(algo, r)
    assert list(algo.batches()) == []


@pytest.mark.parametrize(("field", "value"), [("clip", 0.0), ("epochs", 0), ("minibatch", 0), ("value_clip", -0.1)])
def test_impossible_values_are_named(field, value):
    with pytest.raises(ConfigError, match=f"--algo.{field.replace('_', '-')} {value}"):
        PPOConfig(**{field: value}).check()
