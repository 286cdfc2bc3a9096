"""The nightly series of trainings: its statistic, simulated rates of false and true alarms, and a real night."""

import csv
import itertools
import math

import numpy as np
import pytest

from accel_rl.text.errors import ConfigError
from experiments.suite import GAMES
from tests.learning_series import LEAST, LIMIT, main, nights_to_alarm, q_statistic, read, sums


def test_the_statistic_is_standard_normal_and_independent_of_the_deviation():
    rng = np.random.default_rng(0)
    for n in (3, 8):
        x = rng.normal(7.0, 3.0, (2_000, n + 1))
        q = np.array([q_statistic(row[:-1].tolist(), row[-1]) for row in x])
        assert abs(q.mean()) < 4 / math.sqrt(len(q)) and abs(q.std() - 1) < 0.07


@pytest.mark.slow
def test_the_alarm_is_rare_without_a_change_and_quick_after_a_fall():
    """With an alarm rate of 1 / 370 per night, the median number of nights to the first alarm is 256."""
    assert 150 < np.median(nights_to_alarm(24, 0.0, 40)) < 380
    assert np.median(nights_to_alarm(48, 2.0, 40)) <= 6


def test_a_planted_fall_is_found_and_does_not_become_the_reference():
    rng = np.random.default_rng(3)
    games = list(itertools.islice(itertools.cycle(GAMES), 80))
    level = {game: 10.0 * (i + 1) for i, game in enumerate(GAMES)}
    scores = [level[game] * (1 + 0.1 * rng.normal()) * (0.75 if i >= 40 else 1.0) for i, game in enumerate(games)]
    found = list(sums(games, scores))
    assert max(found[:40]) < LIMIT <= max(found[40:50]) and min(found[50:]) >= LIMIT
    assert not any(found[: LEAST * len(GAMES)])  # Nothing to compare with


def test_files_that_are_no_series_are_one_line(tmp_path):
    (tmp_path / "x.csv").write_text("game,score\npong,high\n")
    with pytest.raises(ConfigError, match="is no series of nights"):
        read(tmp_path / "x.csv")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_night_is_trained_and_appended(tmp_path, capsys):
    file = tmp_path / "series.csv"
    assert main(["--rows", str(file), "--env-steps", "1000"]) == 1
    assert "no episode of pong has ended in 1,000 env steps" in capsys.readouterr().err and not file.exists()
    assert main(["--rows", str(file), "--env-steps", "130000", "--draws", "2"]) == 0
    assert main(["--rows", str(file), "--env-steps", "130000", "--draws", "2", "--nights", "0"]) == 0
    (row,) = csv.DictReader(file.open())
    assert (row["game"], row["seed"]) == ("pong", "0") and -21 <= float(row["score"]) < -15
    assert capsys.readouterr().out.count("| pong |") == 2
