"""Short runs reproduce the stored curves of their losses, gradient norms and scores. After an intended change, `python
-m tests.golden.curves --update` stores new curves."""

import pytest
import torch

from accel_rl.algos import policy_gradient
from accel_rl.algos.replay_algorithm import TargetNetwork
from accel_rl.kernels import conv_u8
from accel_rl.kernels.frames import FrameStacks
from accel_rl.replays.ring import FrameRing
from tests.golden.curves import NAMES, differences, measure, stored
from tests.golden.runs import RANKS, RUNS
from tests.marks import slow

# Runs that only the slow tests make. The fast tests make another run of PPO, and one of Rainbow, which resembles C51.
MORE = ("ppo, pong", "c51, pong")


@pytest.mark.parametrize("name", [*map(slow, (*MORE, *RANKS)), *(name for name in RUNS if name not in MORE)])
def test_the_curve_is_as_it_was(name):
    lines = differences(stored()[name], measure(name))
    assert not lines, f"{name}: {'; '.join(lines)}"


def test_stored_curves_are_complete():
    curves = stored()
    assert set(curves) == {*RUNS, *RANKS}
    for name, curve in curves.items():
        assert set(curve) == set(NAMES)
        assert name in RANKS or {len(values) for values in curve.values()} == {24}, name
        assert torch.tensor(curve["loss"]).isfinite().any(), name


# -- planted mistakes ------------------------------------------------------------


def the_advantages_sign(monkeypatch):
    advantage = policy_gradient.generalized_advantage
    monkeypatch.setattr(policy_gradient, "generalized_advantage", lambda *a, **k: -advantage(*a, **k))


def a_stale_target_network(monkeypatch):
    monkeypatch.setattr(TargetNetwork, "update", lambda self: None)


def no_bootstrap_where_a_time_limit_struck(monkeypatch):
    """A planted mistake: the discount is 0 at a time limit, as at a termination."""
    discount, append = policy_gradient.PolicyGradient.discount, FrameRing.append
    monkeypatch.setattr(
        policy_gradient.PolicyGradient,
        "discount",
        lambda self, rollout: discount(self, rollout) * (~rollout.truncated).float(),
    )

    def append_terminated(self, rollout):
        rollout.terminated |= rollout.truncated
        append(self, rollout)

    monkeypatch.setattr(FrameRing, "append", append_terminated)


def stacks_off_by_one(monkeypatch):
    """A planted mistake: the newest frame of each stack is at the oldest position."""
    gather, supports, batch = FrameStacks.gather, conv_u8.supports, FrameRing.batch

    def rolled(self):
        return gather(self).roll(1, 1)

    def rolled_batch(self, *args, **kwargs):
        found = batch(self, *args, **kwargs)
        found.obs_tm1, found.obs_t = found.obs_tm1.roll(1, 1), found.obs_t.roll(1, 1)
        return found

    monkeypatch.setattr(FrameStacks, "gather", rolled)
    # Switch off the convolution kernel that reads frame stacks without `gather`, in which the mistake is planted.
    monkeypatch.setattr(conv_u8, "supports", lambda x, *more: not isinstance(x, FrameStacks) and supports(x, *more))
    monkeypatch.setattr(FrameRing, "batch", rolled_batch)


MISTAKES = [
    (the_advantages_sign, "a2c, pong"),
    (a_stale_target_network, "dqn, concurrent"),
    (no_bootstrap_where_a_time_limit_struck, "a2c, LSTM and GAE, time limits"),
    (stacks_off_by_one, "dqn, pong"),
]
ALSO = [  # pairs of a planted mistake and a run, for the slow tests
    (the_advantages_sign, "ppo, time limits"),
    (a_stale_target_network, "dqn, pong"),
    (a_stale_target_network, "rainbow, time limits"),
    (no_bootstrap_where_a_time_limit_struck, "dqn, double, dueling, three steps, time limits"),
    (no_bootstrap_where_a_time_limit_struck, "ppo, time limits"),
    (no_bootstrap_where_a_time_limit_struck, "rainbow, time limits"),
    (stacks_off_by_one, "a2c, pong"),
    (stacks_off_by_one, "impala, pong"),
    (stacks_off_by_one, "c51, pong"),
]


@pytest.mark.parametrize(("mistake", "name"), [*MISTAKES, *(slow(*case) for case in ALSO)])
def test_a_mistake_is_seen(mistake, name, monkeypatch):
    mistake(monkeypatch)
    assert differences(stored()[name], measure(name))
