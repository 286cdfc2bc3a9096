"""Distributions over atoms against rlax's results on the same numbers, and against a loop."""

import torch

from accel_rl.ops.categorical import cross_entropy, entropy, expectation, project
from accel_rl.ops.q_learning import batched_index
from tests.ops.test_q_learning import FOUND, GIVEN, near


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
