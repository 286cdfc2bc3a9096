"""Aggregates, by the definitions of Agarwal et al. 2021 (arXiv:2108.13264), written as loops."""

import numpy as np
import pytest

from accel_rl.report.aggregates import (
    TAUS,
    bootstrap,
    improvements_table,
    iqm,
    probability_of_improvement,
    statistics,
    summarise,
)


def scores_of(seeds: int, games: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(-0.5, 0.8, (seeds, games))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 49, 100])
def test_the_interquartile_mean_drops_a_quarter_at_each_end(n):
    x = np.random.default_rng(n).normal(size=n)
    kept = sorted(x)[n // 4 : n - n // 4]
    assert iqm(x) == pytest.approx(sum(kept) / len(kept))


@pytest.mark.parametrize("shape", [(1, 3), (2, 5), (5, 49)])
def test_statistics_by_their_definitions(shape):
    x = scores_of(*shape)
    found = statistics(x)
    assert found[0] == pytest.approx(np.median([np.mean(game) for game in x.T]))
    runs = sorted(x.ravel())
    assert found[1] == pytest.approx(np.mean(runs[len(runs) // 4 : len(runs) - len(runs) // 4]))
    assert found[2:] == pytest.approx([sum(score > tau for score in runs) / len(runs) for tau in TAUS])
    assert statistics(np.stack([x, 2 * x]))[0] == pytest.approx(found)  # over samples at the same time


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5)])
def test_the_probability_of_improvement_counts_pairs(sizes):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 4, (n, 6)).astype(float) for n in sizes)  # with ties
    of_games = []
    for game in range(6):
        better = [float(a > b) + 0.5 * (a == b) for a in x[:, game] for b in y[:, game]]
        of_games.append(np.mean(better))
    assert probability_of_improvement(x, y) == pytest.approx(np.mean(of_games))
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1)
    assert probability_of_improvement(x, x) == 0.5


def test_the_bootstrap_draws_the_seeds_of_each_game_independently():
    x, rng = scores_of(5, 10), np.random.default_rng(7)
    samples = []
    for _ in range(4_000):
        sample = np.stack([game[rng.integers(5, size=5)] for game in x.T], 1)
        samples.append([np.median(sample.mean(0)), iqm(sample.ravel())])
    low, high = bootstrap(x, reps=4_000)
    assert low[:2] == pytest.approx(np.percentile(samples, 2.5, axis=0), abs=0.01)
    assert high[:2] == pytest.approx(np.percentile(samples, 97.5, axis=0), abs=0.01)
    assert [*bootstrap(x, 50)[0]] == [*bootstrap(x, 50)[0]]  # the same each time


def test_one_seed_has_no_interval():
    found = summarise(scores_of(1, 4), reps=20)
    assert np.isfinite(found.median.value) and np.isnan([found.median.low, found.iqm.high]).all()
    assert np.isnan(found.share_low).all()


def test_the_numbers_are_rliables():
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    x, y = scores_of(5, 20), scores_of(4, 20, seed=3)
    assert statistics(x)[:2] == pytest.approx([metrics.aggregate_median(x), metrics.aggregate_iqm(x)])
    assert probability_of_improvement(x, y) == pytest.approx(metrics.probability_of_improvement(x, y))
    _, found = library.get_interval_estimates({"": x}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=3_000)
    low, high = bootstrap(x, reps=3_000)
    assert (low[1], high[1]) == pytest.approx(tuple(found[""][:, 0]), abs=0.02)


def test_settings_are_compared_in_the_games_that_both_have():
    ours = {"a": (["pong", "qbert"], np.array([[1.0, 2.0]])), "b": (["qbert", "alien"], np.array([[1.0, 5.0]]))}
    table = improvements_table({**ours, "c": (["enduro"], np.ones((1, 1)))}, ["a", "b", "c"])
    assert [row[:4] for row in table.rows] == [["a", "b", "1", "1.000"]]
