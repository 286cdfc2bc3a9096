"""IMPALA (A2C with V-trace): the window of time steps of each update, and the correction for an older acting policy."""

import pytest
import torch

from accel_rl.algos.impala import IMPALA, IMPALAConfig
from accel_rl.optim.flat import FlatParameters
from accel_rl.text.errors import ConfigError
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout, update


def build(cls, config, T=T, B=B):
    torch.manual_seed(0)
    algo = cls(config, SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


def test_groups_take_turns_and_wait_for_a_whole_window():
    algo, _ = build(IMPALA, IMPALAConfig(window=4, batches=3), T=1)
    sizes = []
    for k in range(8):
        r = rollout(seed=k, T=1)
        act_over(algo, r)
        ingest(algo, r)
        sizes.append([(b.rollout.T, b.rollout.B) for b in algo.batches()])
    assert sizes[:3] == [[], [], []] and sizes[3:] == [[(4, 2)]] * 5
    assert algo.update_batch == 4 * 2


def test_it_corrects_for_an_older_policy():
    """The importance ratio differs from 1 if the network has changed since the actions were sampled."""
    r = rollout()
    algo, flat = build(IMPALA, IMPALAConfig(window=T, batches=1))
    act_over(algo, r)
    flat.data += 0.05 * torch.randn(len(flat.data), generator=torch.Generator().manual_seed(1))
    ingest(algo, r)
    (batch,) = list(algo.batches())
    loss = update(algo, flat, batch)
    assert abs(loss.metrics["ratio"].item() - 1) > 1e-3 and torch.isfinite(flat.data).all()


@pytest.mark.parametrize(("T", "B", "field"), [(2, 6, "window"), (1, 7, "batches")])
def test_what_does_not_divide_is_named(T, B, field):
    with pytest.raises(ConfigError, match=f"--algo.{field} 5"):
        IMPALAConfig().check_sampling(T, B)
