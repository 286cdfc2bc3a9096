"""Batches are drawn uniformly with or without replacement, or by priority."""

import math

import pytest
import torch

from accel_rl.replays.prioritized import Prioritized
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep
from accel_rl.replays.uniform import Uniform
from tests.marks import slow
from tests.replays.made_up import Simulators


def filled(select, rollouts=30, rows=40, B=4, T=5, seed=0, n=3, **options):
    sims = Simulators(B, T, seed, **options)
    replay = Replay(ring := FrameRing(sims.spec, B, rows * B, NStep(n)), select(ring))
    for _ in range(rollouts):
        replay.append(sims.rollout())
    return replay, sims


def offered(ring: FrameRing) -> torch.Tensor:
    low, high = ring.eligible
    cells = torch.arange(low * ring.B, high * ring.B)
    return cells[ring.sampleable(cells)]


def chi_square_passes(count: torch.Tensor, expected: torch.Tensor) -> bool:
    """A chi-square test of level 1e-4 that counts [k] fit expected counts (Wilson & Hilferty's approximation)."""
    assert float(expected.min()) > 5
    k = len(count) - 1
    statistic = float(((count - expected) ** 2 / expected).sum())
    return statistic < k * (1 - 2 / (9 * k) + 3.719 * math.sqrt(2 / (9 * k))) ** 3


def counted(replay: Replay, draws: int, N: int) -> torch.Tensor:
    """Return how often each sampleable cell was drawn, and check that no other cell was drawn."""
    cells = offered(replay.ring)
    drawn = torch.cat([replay.selection.draw(N)[0] for _ in range(draws)])
    at = torch.searchsorted(cells, drawn)
    assert torch.equal(cells[at.clamp(max=len(cells) - 1)], drawn)
    return torch.bincount(at, minlength=len(cells)).double()


@pytest.mark.parametrize("dies", [slow(0.0), slow(0.05), 0.3])
@pytest.mark.parametrize("rollouts", [3, 30])
def test_cells_on_offer_are_numbered_in_order(dies, rollouts):
    for seed in range(5):
        replay, _ = filled(lambda ring: Uniform(ring, 1), rollouts, dies=dies, seed=seed)
        assert torch.equal(replay.ring.nth(torch.arange(len(replay))), offered(replay.ring))


@pytest.mark.parametrize("dies", [slow(0.0), 0.3])
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("N", [slow(8), 90])
def test_uniform_draws_every_cell_alike(dies, replacement, N):
    replay, _ = filled(lambda ring: Uniform(ring, 1, replacement), dies=dies)
    assert (replay.ring.refused > 0) == (dies > 0)
    count = counted(replay, 30_000 // N, N)
    expected = torch.full_like(count, float(count.sum()) / len(count))
    if replacement:
        assert chi_square_passes(count, expected)
    else:  # Without replacement, a batch has no cell twice, and counts vary less than with replacement.
        assert float(((count - expected) ** 2 / expected).sum()) < 1.3 * len(count)
        assert len(replay.selection.draw(N)[0].unique()) == min(N, len(replay))


@pytest.mark.parametrize("dies", [slow(0.0), 0.3])
def test_priorities_are_followed_before_and_after_wraps_and_updates(dies):
    replay, sims = filled(lambda ring: Prioritized(ring, 1, alpha=0.6, beta=0.4), rollouts=6, dies=dies)
    generator = torch.Generator().manual_seed(5)
    for rollouts in (0, 1, 3, 20):
        for _ in range(rollouts):
            replay.append(sims.rollout())
        cells = offered(replay.ring)
        some = cells[torch.randperm(len(cells), generator=generator)[: len(cells) // 2]]
        error = torch.rand(len(some), generator=generator) + 0.1
        replay.selection.update(some, error)
        weight = replay.selection.tree[replay.ring.position_of(cells)].double()
        torch.testing.assert_close(
            replay.selection.tree[replay.ring.position_of(some)], (error + 1e-6) ** 0.6, rtol=1e-5, atol=0
        )
        assert float(weight.min()) > 0
        count = counted(replay, 1000, 32)
        assert chi_square_passes(count, 32_000 * weight / weight.sum())
        assert float(replay.selection.tree.total) == pytest.approx(float(weight.sum()), rel=1e-6)  # no others


def test_new_transitions_enter_at_the_largest_priority_so_far():
    replay, sims = filled(lambda ring: Prioritized(ring, 1, alpha=1.0, beta=0.4), rollouts=4)
    first = offered(replay.ring)
    assert set(replay.selection.tree[replay.ring.position_of(first)].tolist()) == {1.0}
    replay.selection.update(first[:2], torch.tensor([7.0, 0.5]))
    replay.append(sims.rollout())
    new = offered(replay.ring)[-5:]
    assert new[0] > first[-1] or new[-1] > first[-1]
    assert float(replay.selection.tree[replay.ring.position_of(new[-1:])]) == pytest.approx(7.0, rel=1e-5)


def test_overwritten_cells_keep_no_priority():
    replay, sims = filled(lambda ring: Prioritized(ring, 1, alpha=1.0, beta=0.4), rollouts=8)
    batch = replay.sample(16)
    for _ in range(8):  # Eight new rollouts overwrite every cell of the batch.
        replay.append(sims.rollout())
    before = [level.clone() for level in replay.selection.tree.levels]
    replay.update(batch, torch.full((16,), 1000.0))
    assert all(torch.equal(a, b) for a, b in zip(before, replay.selection.tree.levels, strict=True))
    assert float(replay.selection.highest) == 1.0


def test_an_error_that_is_not_finite_does_not_poison_the_sums():
    replay, _ = filled(lambda ring: Prioritized(ring, 1, alpha=0.5, beta=0.4))
    batch = replay.sample(4)
    replay.update(batch, torch.tensor([math.nan, math.inf, -math.inf, 1.0]))
    assert math.isfinite(float(replay.selection.tree.total)) and math.isfinite(float(replay.selection.highest))


def test_importance_weights_are_the_papers():
    """Weights are (N P(i))^-beta divided by the largest weight of the batch, as in dqn_zoo's
    importance_sampling_weights."""
    replay, _ = filled(lambda ring: Prioritized(ring, 1, alpha=0.7, beta=0.4))
    cells = offered(replay.ring)
    replay.selection.update(cells, torch.arange(1.0, len(cells) + 1))
    batch = replay.sample(64)
    p = (torch.arange(1.0, len(cells) + 1, dtype=torch.float64) + 1e-6) ** 0.7
    p /= p.sum()
    want = (1 / len(cells) / p[torch.searchsorted(cells, batch.cell)]) ** 0.4
    torch.testing.assert_close(batch.weight.double(), want / want.max(), rtol=1e-5, atol=1e-6)
    replay.anneal(0.5)
    assert replay.selection.beta == pytest.approx(0.7)


def test_one_index_from_each_stretch():
    replay, _ = filled(lambda ring: Prioritized(ring, 1, alpha=1.0, beta=0.4))
    cells = offered(replay.ring)
    place = replay.ring.position_of(cells).sort().values
    drawn = replay.ring.position_of(replay.selection.draw(len(cells))[0])
    # If all priorities are equal, a batch whose size is the number of cells has each cell once.
    assert torch.equal(drawn.sort().values, place)


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_a_replay_that_goes_on_from_a_state_draws_the_same(kind):
    select = {"uniform": lambda ring: Uniform(ring, 1), "prioritized": lambda ring: Prioritized(ring, 1, 0.5, 0.4)}[
        kind
    ]
    one, sims = filled(select, rollouts=23, dies=0.1)
    for _ in range(3):
        batch = one.sample(32)
        one.update(batch, torch.rand(32, generator=torch.Generator().manual_seed(1)))
    state = one.state_dict()
    segments = state["history"]["segments"]
    other = Replay(ring := FrameRing(sims.spec, 4, 160, NStep(3)), select(ring))
    other.load_state_dict({**state, "history": {**state["history"], "segments": segments}})
    for _ in range(12):
        rollout = sims.rollout()
        for replay in (one, other):
            replay.append(rollout)
        a, b = one.sample(32), other.sample(32)
        for name in type(a).__slots__:
            assert torch.equal(getattr(a, name), getattr(b, name)), name
        for replay, batch in ((one, a), (other, b)):
            replay.update(batch, batch.r_t + 0.5)


def test_an_empty_replay_says_so():
    sims = Simulators(2, 3, 0)
    replay = Replay(ring := FrameRing(sims.spec, 2, 100, NStep()), Uniform(ring, 0))
    with pytest.raises(ValueError, match="no whole transition"):
        replay.sample(4)


def test_a_transition_that_is_not_finite_is_never_drawn_again():
    replay, _ = filled(lambda ring: Prioritized(ring, 1, alpha=1.0, beta=0.5))
    cells, _ = replay.selection.draw(8)
    cells = cells.unique()
    error = torch.ones(len(cells))
    error[0] = math.nan
    replay.selection.update(cells, error)
    drawn = torch.cat([replay.selection.draw(64)[0] for _ in range(50)])
    assert cells[0] not in drawn and cells[1] in drawn
    assert float(replay.selection.highest) == pytest.approx(1.0, abs=1e-5)


def test_a_batch_without_any_finite_error_keeps_its_priorities():
    replay, _ = filled(lambda ring: Prioritized(ring, 1, alpha=1.0, beta=0.5))
    cells, _ = replay.selection.draw(8)
    before = float(replay.selection.tree.total)
    replay.selection.update(cells, torch.full((8,), math.nan))
    assert float(replay.selection.tree.total) == before
