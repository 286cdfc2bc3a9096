"""Values in cells (t, b) of a rollout that are marked invalid affect neither losses nor gradients."""

from dataclasses import replace

import pytest
import torch

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.algorithm import set_schedules
from accel_rl.algos.impala import IMPALA, IMPALAConfig
from accel_rl.algos.policy_gradient import PolicyBatch
from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.ops.policy_loss import finite_where_invalid, log_prob, mean_over
from accel_rl.optim.flat import FlatParameters
from tests.algos.made_up import act_over, ingest

T, B = 6, 4
SPEC = EnvSpec("vectors", (3,), "float32", 2, 1)
NAN, INF = float("nan"), float("inf")
ALGORITHMS = {
    "a2c": (A2C, A2CConfig()),
    "a2c-gae": (A2C, A2CConfig(gae_lambda=0.9)),
    "a2c-lstm": (A2C, A2CConfig(lstm=4)),
    "ppo": (PPO, PPOConfig(minibatch=T * B, epochs=1)),
    "ppo-lstm": (PPO, PPOConfig(minibatch=T * B, epochs=1, lstm=4, value_clip=0.2)),
    "impala": (IMPALA, IMPALAConfig(window=T, batches=1)),
}


def rollout():
    """Return a rollout in which environment 1 ends its episode at step 2, and the worker process of environment 3 is
    dead."""
    g = torch.Generator().manual_seed(0)
    flags = lambda: torch.zeros(T, B, dtype=torch.bool)  # noqa: E731
    terminated, valid, age = flags(), ~flags(), torch.ones(T + 1, B, dtype=torch.uint8)
    terminated[2, 1], valid[3:, 1], valid[:, 3] = True, False, False
    return Rollout(
        frames=torch.randn(T + 1, B, 3, generator=g),
        final_frames=torch.randn(T, B, 3, generator=g),
        age=age,
        action=torch.randint(0, 2, (T, B), generator=g),
        reward=torch.randn(T, B, generator=g),
        terminated=terminated,
        truncated=flags(),
        ended=terminated.clone(),
        valid=valid,
        stack=1,
    )


def gradient(name, value):
    """Return (gradient, loss) after one rollout whose invalid cells hold `value` in all sampled and recorded arrays."""
    torch.manual_seed(0)
    cls, config = ALGORITHMS[name]
    algo = cls(config, SPEC, T=T, B=B)
    flat, r = FlatParameters(algo.agent.model), rollout()
    if config.lstm:
        r.state = r.next_state = torch.zeros(B, algo.agent.state_size)
        with torch.no_grad():
            logits, v, _ = algo.agent.forward(r.observations(0, T), r.memory())
        r.recorded = {"value": v.view(T, B), "log_prob": log_prob(logits, r.action.reshape(-1)).view(T, B)}
    else:
        act_over(algo, r)
    if value is not None:
        for x in (r.reward, *r.recorded.values(), r.frames[:T]):
            x[~r.valid] = value
        r.frames[T, ~r.valid[-1]] = value
    ingest(algo, r)
    (batch,) = algo.batches()
    loss = algo.loss(batch).total
    flat.backward(loss)
    return flat.grad.clone(), loss.detach()


@pytest.mark.parametrize("value", [NAN, INF, -INF], ids=str)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_not_finite_in_invalid_cells_changes_nothing(name, value):
    expected, loss = gradient(name, None)
    got, shown = gradient(name, value)
    assert expected.norm() > 0
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shown, loss, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_a_batch_made_by_hand(name):
    torch.manual_seed(0)
    cls, config = ALGORITHMS[name]
    algo, valid = cls(config, SPEC, T=T, B=B), torch.tensor([True, False, True])
    flat = FlatParameters(algo.agent.model)
    set_schedules(algo)
    numbers = torch.tensor([1.0, NAN, 2.0])
    batch = PolicyBatch(
        torch.randn(3, 3),
        torch.tensor([0, 1, 1]),
        numbers.clone(),
        numbers.clone(),
        valid,
        {"log_prob": numbers.clone(), "value": numbers},
    )
    flat.backward(algo.loss(batch).total)
    assert flat.grad.isfinite().all() and flat.grad.norm() > 0


def test_nan_in_a_valid_cell_is_seen():
    """An update on a batch with a NaN in a valid cell (t, b) is skipped, and counted as skipped."""
    torch.manual_seed(0)
    algo, r = A2C(A2CConfig(), SPEC, T=T, B=B), rollout()
    flat = FlatParameters(algo.agent.model)
    act_over(algo, r)
    r.reward[0, 0] = NAN
    ingest(algo, r)
    (batch,) = algo.batches()
    loss = algo.loss(batch).total
    flat.backward(loss)
    assert not loss.isfinite() and not flat.grad.isfinite().all()


def test_finite_where_invalid():
    x, valid = torch.tensor([[NAN, 1.0], [INF, NAN]]), torch.tensor([True, False])
    found = finite_where_invalid(x, valid)
    assert found[0].isnan().tolist() == [True, False] and found[1].tolist() == [0.0, 0.0]
    assert finite_where_invalid(x, None) is x
    assert mean_over(valid)(found[:, 1]) == 1.0


def test_old_numbers_need_not_be_given_anew():
    """dataclasses.replace copies a batch's mask of valid cells (t, b)."""
    batch = PolicyBatch(*(torch.ones(2) for _ in range(4)), torch.tensor([True, False]), {"value": torch.ones(2)})
    assert replace(batch, advantage=torch.tensor([2.0, NAN])).advantage.tolist() == [2.0, 0.0]
