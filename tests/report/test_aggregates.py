"""Aggregates of scores equal the definitions of Agarwal et al. 2021 (arXiv:2108.13264), written as loops."""

import numpy as np
import pytest

from accel_rl.report.aggregate_section import improvements_table
from accel_rl.report.aggregates import (
    TAUS,
    difference,
    improvement,
    iqm,
    percentiles,
    resampled,
    statistics,
    summarise,
    weights,
)


def scores_of(seeds, games=None, seed=0):
    """Return random {game: scores}. `seeds` is the number of scores of each game, or a tuple of the games' numbers."""
    rng = np.random.default_rng(seed)
    counts = [seeds] * games if games else seeds
    return {f"game {i}": rng.lognormal(-0.5, 0.8, n) for i, n in enumerate(counts)}


def flat(scores):
    return np.concatenate([*scores.values()])


@pytest.mark.parametrize("n", [4, 7, 49, 100])
def test_the_interquartile_mean_drops_a_quarter_at_each_end(n):
    x = np.random.default_rng(n).normal(size=n)
    kept = sorted(x)[n // 4 : n - n // 4]
    assert iqm(x, np.full(n, 1 / n)) == pytest.approx(sum(kept) / len(kept))


def test_runs_of_a_game_with_more_seeds_weigh_less():
    """Four runs of one game weigh 1/8 each, and one run of another game 1/2. The interquartile mean omits the two
    lowest scores."""
    scores = {"many": np.array([0.0, 1.0, 2.0, 3.0]), "one": np.array([10.0])}
    assert weights(scores) == pytest.approx([1 / 8] * 4 + [1 / 2])
    assert iqm(flat(scores), weights(scores)) == pytest.approx((2 / 8 + 3 / 8 + 10 / 2) / (1 / 8 + 1 / 8 + 1 / 2))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_mean_of_three_runs_is_not_called_interquartile(n):
    assert np.isnan(iqm(np.arange(n, dtype=float), np.full(n, 1 / n)))
    assert np.isnan(summarise(scores_of(1, n), reps=10).iqm.value)


@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (5, 5, 5), (3, 1, 3, 2)])
def test_statistics_by_their_definitions(counts):
    scores = scores_of(counts)
    median, middle, mean, gap, *shares = statistics(flat(scores), scores)
    of_games = [sum(x) / len(x) for x in scores.values()]
    assert (median, mean) == pytest.approx((np.median(of_games), np.mean(of_games)))
    each = [(x, 1 / (len(scores) * len(runs))) for runs in scores.values() for x in runs]
    assert gap == pytest.approx(sum(w * max(0.0, 1 - x) for x, w in each))
    assert shares == pytest.approx([sum(w for x, w in each if x > tau) for tau in TAUS])
    inner = [
        (x, w)
        for x, w in each
        if sum(v for y, v in each if y <= x) > 0.25 + 1e-9 and sum(v for y, v in each if y >= x) > 0.25 + 1e-9
    ]
    assert middle == pytest.approx(sum(w * x for x, w in inner) / sum(w for _, w in inner))
    twice = statistics(np.stack([flat(scores), 2 * flat(scores)]), scores)
    assert twice[0] == pytest.approx([median, middle, mean, gap, *shares])


def test_every_seed_of_every_game_counts():
    """If a seed of one game is missing, the other games still count all their seeds."""
    scores = scores_of((3, 3, 3, 2))
    changed = {**scores, "game 0": np.array([*scores["game 0"][:2], 9.0])}
    assert summarise(changed, 20).mean.value > summarise(scores, 20).mean.value
    assert np.isfinite(summarise(scores, 20).iqm.low)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (1, 1)])
def test_the_probability_of_improvement_counts_pairs(sizes):
    rng = np.random.default_rng(1)
    x, y = ({f"{g}": rng.integers(0, 4, n).astype(float) for g in range(6)} for n in sizes)  # with ties
    of_games = []
    for game in x:
        better = [float(a > b) + 0.5 * (a == b) for a in x[game] for b in y[game]]
        of_games.append(np.mean(better))
    p = improvement(x, y, reps=50)
    assert p.value == pytest.approx(np.mean(of_games))
    assert p.value + improvement(y, x, 50).value == pytest.approx(1)
    assert improvement(x, x, 50).value == 0.5
    assert np.isnan(p.low) == (sizes == (1, 1)) and not p.low > p.value and not p.high < p.value


def test_the_difference_of_two_settings_is_of_the_games_that_both_have():
    x, y = scores_of((2, 1, 3, 2, 1, 2, 2, 1, 4)), scores_of((1, 1, 2, 2, 3, 1, 2, 2), seed=1)
    middles = [sorted(np.mean(scores[f"game {i}"]) for i in range(8))[2:6] for scores in (x, y)]
    d, e = difference(x, y, reps=200), difference(y, x, reps=200)
    assert d.value == pytest.approx(np.mean(middles[0]) - np.mean(middles[1])) == -e.value
    assert d.low < d.value < d.high
    equal = difference(x, x | {"another": np.ones(1)}, reps=200)
    assert equal.value == 0 and equal.low < 0 < equal.high
    assert np.isnan(difference(scores_of(1, 3), x, reps=10).value)


@pytest.mark.parametrize(("shift", "least", "most"), [(0.0, 0.0, 0.07), (0.3, 0.9, 1.0)])
def test_the_intervals_of_differences_have_their_size_and_power(shift, least, most):
    """200 pairs of settings on eight games with one seed, whose scores vary by a tenth, are simulated."""
    rng, above = np.random.default_rng(0), 0
    for _ in range(200):
        games = rng.lognormal(-0.5, 0.8, 8)
        first, second = ({str(g): x * rng.normal(1, 0.1, 1) for g, x in enumerate(games + s)} for s in (shift, 0))
        above += difference(first, second, reps=200).low > 0
    assert least <= above / 200 <= most


def test_the_bootstrap_draws_the_seeds_of_each_game_independently():
    scores, rng = scores_of((5, 5, 3, 5, 1, 5)), np.random.default_rng(7)
    samples = []
    for _ in range(2_000):
        sample = {game: x[rng.integers(len(x), size=len(x))] for game, x in scores.items()}
        samples.append(statistics(flat(sample), sample)[:3])
    low, high = percentiles(statistics(resampled(scores, 4_000), scores)[:, :3])
    assert low == pytest.approx(np.percentile(samples, 2.5, axis=0), abs=0.03)
    assert high == pytest.approx(np.percentile(samples, 97.5, axis=0), abs=0.03)
    assert (resampled(scores, 50) == resampled(scores, 50)).all()


def test_one_seed_has_no_interval():
    summary = summarise(scores_of(1, 4), reps=20)
    assert np.isfinite(summary.median.value) and np.isnan([summary.median.low, summary.iqm.high]).all()
    assert np.isnan(summary.share_low).all()


def test_the_numbers_are_rliables():
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    x, y = scores_of(5, 20), scores_of(4, 20, seed=3)
    xs, ys = (np.stack([*scores.values()], 1) for scores in (x, y))
    theirs = [f(xs) for f in (metrics.aggregate_median, metrics.aggregate_iqm, metrics.aggregate_mean)]
    assert statistics(flat(x), x)[:4] == pytest.approx([*theirs, metrics.aggregate_optimality_gap(xs)])
    assert improvement(x, y, 10).value == pytest.approx(metrics.probability_of_improvement(xs, ys))
    _, bounds = library.get_interval_estimates({"": xs}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=3_000)
    summary = summarise(x, reps=3_000)
    assert (summary.iqm.low, summary.iqm.high) == pytest.approx(tuple(bounds[""][:, 0]), abs=0.02)


def test_settings_are_compared_in_the_games_that_both_have():
    ours = {
        "a": {"pong": np.array([1.0]), "qbert": np.array([2.0])},
        "b": {"qbert": np.array([1.0]), "alien": np.array([5.0])},
        "c": {"enduro": np.ones(1)},
    }
    assert [row[:6] for row in improvements_table(ours, 10).rows] == [["a", "b", "1", "1", "1", "1.000"]]
