"""Simulations with known true scores check the error and power of the statistical test over all games."""

import numpy as np
import pytest

from accel_rl.report.non_inferiority import Sample
from accel_rl.report.pooled import chance, pooled
from tests.marks import slow

# Human-normalized scores of eight games like PPO's: one is far above the other scores, and one near random play (0).
MEANS = np.array([1.17, 13.2, 0.12, 0.7, 0.03, 1.3, 0.3, 1.1])


def rates(share, seeds, theirs, deviation, draws=1_000):
    """Return the fraction of each verdict in `draws` simulations, if our true means are `share` times the published
    means."""
    rng, counts = np.random.default_rng(5), {"not inferior": 0, "inferior": 0, "undecided": 0}

    def samples(means, n):
        runs = rng.normal(means, deviation * MEANS, (n, len(MEANS)))
        spread = runs.std(0, ddof=1) if n > 1 else np.zeros(len(MEANS))
        return [Sample(float(m), float(s), n) for m, s in zip(runs.mean(0), spread, strict=True)]

    for _ in range(draws):
        counts[pooled(samples(share * MEANS, seeds), samples(MEANS, theirs), reps=200).verdict] += 1
    return {name: n / draws for name, n in counts.items()}


@pytest.mark.parametrize(
    "seeds, theirs, deviation", [*(slow(*x) for x in ((1, 3, 0.2), (1, 5, 0.1), (3, 3, 0.2), (2, 3, 0.4)))]
)
def test_error_and_power(seeds, theirs, deviation):
    """If our true means are 0.75 of the published means, at most 5 % (+ 2 standard errors) of verdicts are "not
    inferior".

    If the true means are equal, at most 2 % of verdicts are "inferior", and the fraction of "not inferior" is about
    `chance`. If our true means are half of the published ones, at most 1 % of verdicts are "not inferior".
    """
    assert rates(0.75, seeds, theirs, deviation)["not inferior"] <= 0.065
    equal = rates(1.0, seeds, theirs, deviation)
    published = [Sample(float(m), deviation * float(m), theirs) for m in MEANS]
    ours = [Sample(float(m), deviation * float(m) if seeds > 1 else 0.0, seeds) for m in MEANS]
    assert equal["inferior"] <= 0.02
    assert equal["not inferior"] == pytest.approx(chance(ours, published, 400), abs=0.08)
    assert rates(0.5, seeds, theirs, deviation)["not inferior"] <= 0.01


def test_single_runs_of_eight_games_decide_together():
    published = [Sample(float(m), 0.1 * float(m), 5) for m in MEANS]
    equal = pooled([Sample(float(m), 0.0, 1) for m in MEANS], published, 2_000)
    half = pooled([Sample(0.5 * float(m), 0.0, 1) for m in MEANS], published, 2_000)
    assert (equal.verdict, half.verdict) == ("not inferior", "inferior")
    assert equal.ours == equal.published == pytest.approx(np.sort(MEANS)[2:6].mean())
    assert equal.low < 0 < equal.high and equal.margin == pytest.approx(0.25 * equal.published)
    ours = [Sample(float(m), 0.0, 1) for m in MEANS]
    assert chance(ours, published, 400) > 0.9
    wide = [Sample(p.mean, 4 * p.deviation, 5) for p in published]
    assert pooled(ours, wide, 2_000).verdict == "undecided" and chance(ours, wide, 400) < 0.5


def test_scores_below_random_play_are_compared_too():
    published = [Sample(-0.5, 0.05, 5)] * 8
    assert pooled([Sample(-0.5, 0.0, 1)] * 8, published, 1_000).verdict == "not inferior"
    assert pooled([Sample(-1.0, 0.0, 1)] * 8, published, 1_000).verdict == "inferior"


def test_single_runs_beside_a_source_of_single_runs():
    published = [Sample(float(m), 0.15 * float(m), 1, assumed=True) for m in MEANS]
    assert pooled([Sample(1.3 * float(m), 0.0, 1) for m in MEANS], published, 1_000).verdict == "not inferior"
    assert pooled([Sample(0.2 * float(m), 0.0, 1) for m in MEANS], published, 1_000).verdict == "inferior"
