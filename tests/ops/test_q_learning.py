"""Targets, losses and distributions over atoms equal rlax's results (make_rlax_values.py) and those of plain loops."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.ops.q_learning import (
    batched_index,
    cross_entropy,
    dueling,
    entropy,
    expectation,
    huber,
    project,
    uniform_action,
)
from accel_rl.replays.ring import FrameRing, NStep

VALUES = json.loads(Path(__file__).with_name("rlax_values.json").read_text())
GIVEN = {k: torch.tensor(v) for k, v in VALUES["given"].items()}
FOUND = {k: torch.tensor(v) for k, v in VALUES["found"].items() if k != "rlax"}


def near(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("chooser", "found"), [("q_t", "q_learning"), ("q_selector", "double_q_learning")])
def test_q_learning_is_rlaxs(chooser, found):
    g = GIVEN
    batch = SimpleNamespace(r_t=g["r_t"], discount_t=g["discount_t"], obs_t=None)
    reward, value = DQN.bootstrap(
        SimpleNamespace(config=DQNConfig(), spec=SimpleNamespace(mask=0)), batch, None, g[chooser], g["q_t"]
    )
    near(reward + g["discount_t"] * value - batched_index(g["q_tm1"], g["a_tm1"]), FOUND[found])


def test_huber_is_rlaxs_and_its_gradient_the_clipped_error():
    near(huber(3 * GIVEN["r_t"], 1.0), FOUND["huber_loss"])
    error = torch.linspace(-3, 3, 13, requires_grad=True)
    huber(error, 1.0).sum().backward()
    near(error.grad, error.detach().clamp(-1, 1))
    near(huber(error.detach(), 0.0), 0.5 * error.detach() ** 2)


def test_dueling_takes_the_mean_off():
    v, a = torch.randn(5, 1, 3), torch.randn(5, 4, 3)
    got = dueling(v, a)
    for n in range(5):
        for k in range(4):
            near(got[n, k], v[n, 0] + a[n, k] - sum(a[n, j] for j in range(4)) / 4)


def test_n_step_returns_are_rlaxs():
    """For a frame ring with the rewards and ends of rlax's input, r_t + discount_t * value must be rlax's n-step
    return."""
    g, gamma = GIVEN, 0.97
    T = len(g["rewards"])
    for n in (1, 3):
        rows = T + n + 2
        done = torch.zeros(rows, 1, dtype=torch.bool)
        done[:T, 0] = g["discounts"] == 0
        pad = torch.zeros(rows, 1)
        pad[:T, 0] = g["rewards"]
        frames = torch.arange(float(rows + 1)).view(-1, 1, 1)  # The observation at step t is the number t.
        ring = FrameRing(EnvSpec("line", (1,), "float32", 2), 1, 3 * rows, NStep(n, gamma, 0.0))
        age = torch.ones(rows + 1, 1, dtype=torch.uint8)
        zero = torch.zeros(rows, 1, dtype=torch.bool)
        ring.append(Rollout(frames, frames[1:], age, zero.long(), pad, done, zero, zero, ~zero, stack=1))
        batch = ring.batch(torch.arange(T))
        # The last n - 1 returns are not compared, because rlax bootstraps them from the sequence's last value.
        at = batch.obs_t.squeeze(-1).long()
        whole = at <= T
        # In rlax's input, values[t] is the value of observation t + 1.
        value = torch.cat([torch.zeros(1), g["values"], torch.zeros(n + 2)])
        got = batch.r_t + batch.discount_t * value[at]
        near(got[whole][: T - n + 1], FOUND[f"n_step_{n}"][whole][: T - n + 1])
        assert np.isfinite(got.numpy()).all()


def test_projection_is_rlaxs():
    near(project(GIVEN["atoms_p"], GIVEN["p"], GIVEN["atoms"]), FOUND["categorical_l2_project"])


def test_projection_is_the_papers_algorithm():
    g = torch.Generator().manual_seed(0)
    atoms = torch.linspace(-10, 10, 51)
    p = torch.softmax(torch.randn(20, 51, generator=g), -1)
    r, discount = 4 * torch.randn(20, generator=g), torch.rand(20, generator=g)
    discount[::4] = 0
    want = torch.zeros(20, 51, dtype=torch.float64)
    for n in range(20):
        for j in range(51):
            tz = min(max(float(r[n]) + float(discount[n]) * float(atoms[j]), -10.0), 10.0)
            b = (tz + 10) / (20 / 50)
            low, high = int(b // 1), int(-(-b // 1))
            if low == high:
                want[n, low] += float(p[n, j])
            else:
                want[n, low] += float(p[n, j]) * (high - b)
                want[n, high] += float(p[n, j]) * (b - low)
    got = project(r[:, None] + discount[:, None] * atoms, p, atoms)
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=0)
    near(got.sum(-1), torch.ones(20))


def c51_loss(logits_selector: torch.Tensor) -> torch.Tensor:
    g = GIVEN
    best = expectation(logits_selector, g["atoms"]).argmax(-1)
    p = torch.softmax(batched_index(g["logits_t"], best), -1)
    target = project(g["r_t"][:, None] + g["discount_t"][:, None] * g["atoms"], p, g["atoms"])
    return cross_entropy(target, batched_index(g["logits_tm1"], g["a_tm1"]))


def test_c51s_loss_is_rlaxs():
    near(c51_loss(GIVEN["logits_t"]), FOUND["categorical_q_learning"])


def test_c51s_loss_with_a_double_network_is_rlaxs():
    near(c51_loss(GIVEN["logits_selector"]), FOUND["categorical_double_q_learning"])


def test_entropy_is_the_least_cross_entropy():
    logits = torch.randn(4, 7)
    p = torch.softmax(logits, -1)
    near(cross_entropy(p, logits), entropy(p))
    assert float(entropy(torch.eye(3)).abs().max()) == 0.0


def test_each_action_has_an_equal_share_of_the_uniform_numbers():
    uniform = torch.tensor([0.0, 0.24, 0.25, 0.49, 0.5, 0.74, 0.75, 1 - 2.0**-24])
    assert uniform_action(uniform, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert uniform_action(uniform[-1:], 2**25).item() < 2**25
