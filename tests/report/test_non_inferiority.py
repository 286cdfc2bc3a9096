"""Statistical tests of our means against published means are checked by tables, by hand and by simulation."""

import numpy as np
import pytest

from accel_rl.report import non_inferiority
from accel_rl.report.non_inferiority import (
    Sample,
    chances,
    holm,
    not_lower,
    prediction_interval,
    student,
    student_quantile,
    verdict,
    welch,
)
from tests.marks import slow


@pytest.mark.parametrize(
    "freedom, p, t", [(1, 0.95, 6.3138), (2, 0.975, 4.3027), (4, 0.95, 2.1318), (10, 0.975, 2.2281), (30, 0.95, 1.6973)]
)
def test_students_t_is_that_of_the_tables(freedom, p, t):
    assert student(np.array(t), np.array(float(freedom))) == pytest.approx(p, abs=1e-5)
    assert student(np.array(-t), np.array(float(freedom))) == pytest.approx(1 - p, abs=1e-5)
    assert student_quantile(p, freedom) == pytest.approx(t, abs=1e-3)


def test_welchs_test_by_hand():
    """The means are 12 and 10, the standard errors 1 / sqrt(3) and 2 / 2, and the margin 1.

    Welch's t is (12 - 10 + 1) / sqrt(4 / 3), with (4 / 3)^2 / ((1 / 3)^2 / 2 + 1 / 3) degrees of freedom.
    """
    freedom = (4 / 3) ** 2 / ((1 / 3) ** 2 / 2 + 1 / 3)
    p = welch(Sample(12, 1, 3), Sample(10, 2, 4), margin=1.0)
    t = [(2 + 1) / (4 / 3) ** 0.5, (1 - 2) / (4 / 3) ** 0.5, (-1 - 2) / (4 / 3) ** 0.5]
    assert p == pytest.approx([1 - student(np.array(x), np.array(freedom)) for x in t])


def test_holms_adjustment_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([[0.5, 0.2], [0.001, 0.9]])) == pytest.approx(np.array([[0.5, 0.4], [0.002, 0.9]]))


@pytest.mark.parametrize(
    "mean, outcome", [(20.4, "equivalent"), (30.0, "not inferior"), (10.0, "inferior"), (16.0, "undecided")]
)
def test_a_verdict(mean, outcome):
    assert verdict(welch(Sample(mean, 1.0, 3), Sample(20.0, 1.0, 3), margin=4.0)) == outcome


@pytest.mark.parametrize("deviation, seeds", [(0.2, 3), *(slow(0.1, n) for n in (2, 3))])
def test_size_and_power_of_the_test_of_one_game(deviation, seeds):
    """If our true mean is lower by the margin, at most 5 % (+ 2 standard errors) of 1,000 verdicts are "not inferior".

    If the true means are equal, the fraction of the verdict "not inferior" is the one that `chances` predicts.
    """
    rng, margin = np.random.default_rng(1), 0.25

    def rate(mean):
        count = 0
        for _ in range(1_000):
            x, y = rng.normal(mean, deviation, seeds), rng.normal(1.0, deviation, 3)
            samples = [Sample(float(v.mean()), float(v.std(ddof=1)), len(v)) for v in (x, y)]
            count += welch(*samples, margin)[0] <= 0.05
        return count / 1_000

    assert rate(1 - margin) <= 0.065
    (chance,) = chances([Sample(1.0, deviation, 3)], [seeds], [margin])
    assert rate(1.0) == pytest.approx(chance, abs=0.05)


def test_the_error_of_several_games_is_held_together():
    """If all eight true means are lower by the margin, at most 5 % of 1,000 draws call any game "not inferior"."""
    rng = np.random.default_rng(2)
    x, y = (rng.normal(mean, 0.1, (1_000, 8, 3)) for mean in (0.75, 1.0))
    p = not_lower(x.mean(-1) - y.mean(-1) + 0.25, [v.var(-1, ddof=1) / 3 for v in (x, y)], [np.array(2.0)] * 2)
    assert (holm(p) <= 0.05).any(-1).mean() <= 0.065


def test_a_single_run_of_the_source_is_inside_in_95_percent():
    rng, inside = np.random.default_rng(3), 0
    for _ in range(2_000):
        x = rng.normal(100, 20, 5)
        low, high = prediction_interval(Sample(float(x.mean()), float(x.std(ddof=1)), 5), 1)
        inside += low <= rng.normal(100, 20) <= high
    assert inside / 2_000 == pytest.approx(0.95, abs=0.015)


def test_an_assumed_deviation_has_a_normal_quantile():
    low, high = prediction_interval(Sample(10.0, 1.0, 1, assumed=True), 1)
    assert high - low == pytest.approx(2 * 2.042 * 2**0.5, abs=0.01)


def test_equal_scores_without_deviation_have_a_verdict():
    """All runs reach 21, Pong's highest score, so that the deviation is 0."""
    assert verdict(welch(Sample(21.0, 0.0, 3), Sample(21.0, 0.0, 3), margin=10.0)) == "equivalent"
    assert non_inferiority.MARGIN == 0.25  # The report and docs/sweeps.md call the margin a quarter.
