"""Hours of the papers' experiments, estimated from rates of env steps."""

import pytest

from accel_rl.sweeps.grid import find_grid
from experiments import hours


def test_a_sweeps_hours_are_its_runs_one_after_the_other():
    members = find_grid("experiments.stooke:figure_5").only({"game": ["pong"], "seed": ["0"]}).members
    rates = {"A2C": 1_000.0, "A2C-256env": 2_000.0, "A3C": 500.0, "PPO": 250.0, "APPO": 125.0}
    assert hours.by_rates(members, rates) == pytest.approx(50e6 / 3600 * (1 / 2_000 + 1 / 500 + 1 / 250 + 1 / 125))
    del rates["PPO"]
    assert hours.by_rates(members, rates) is None


def test_the_papers_tables_are_its_own_hours():
    """On eight GPUs, several runs of table 2 that each use fewer GPUs are assumed to run at the same time."""
    members = find_grid("experiments.stooke:table_2").members
    printed = {1: (3.8, 4.4), 2: (2.2, 2.4, 2.6, 2.8), 4: (1.2, 1.3, 1.5, 1.5), 8: (0.59, 0.65, 1.1, 0.71)}
    assert hours.on_the_papers(members, 8) == pytest.approx(sum(n / 8 * sum(h) for n, h in printed.items()))
    assert hours.on_the_papers(members, 1) == pytest.approx(7 * 3.8 + 7 * 4.4)


@pytest.mark.slow
def test_every_experiment_has_a_row():
    found = {row[0]: row[1:] for row in hours.rows({})}
    assert len(found) == len(hours.EXPERIMENTS) and all(int(cells[0]) > 0 for cells in found.values())
    assert all(cells[1] != "-" for cells in found.values()), "an experiment without a rate on two cores"


def test_words(capsys, monkeypatch):
    monkeypatch.setattr(hours, "EXPERIMENTS", ("stooke:figure_5",))
    assert hours.main(["--rate", "A2C=4000", "A3C=4000"]) == 0
    assert "hours at your rates" in capsys.readouterr().out
    assert hours.main(["--rate", "A2C"]) == 2 and "--rate A2C" in capsys.readouterr().err


def test_a_gorila_run_has_not_the_hours_of_dqn_with_one_thread():
    gorila = find_grid("experiments.gorila:tables").only({"agent": ["gorila"], "game": ["pong"], "seed": ["0"]}).members
    assert hours.on_the_papers(gorila, 1) is None
    assert hours.by_rates(gorila, {"Gorila": 100.0}) == pytest.approx(200e6 / 100 / 3600)


def test_cules_hours_follow_from_its_frames():
    """A run has 20 M env steps, at 4,300 training frames/s on a CPU, and at 41,700 on four GPUs."""
    grid = find_grid("experiments.dalton:table_3").only({"game": ["pong"], "seed": ["0"]})
    one = grid.only({"column": ["cpu-120-1"]}).members
    four = grid.only({"column": ["gpu-4x1200-20"]}).members
    assert hours.on_the_papers(one, 1) == pytest.approx(20e6 / 4_300 / 3600)
    assert hours.on_the_papers(four, 8) == pytest.approx(20e6 / 41_700 / 3600 * 4 / 8)
    assert hours.on_the_papers(four, 1) == pytest.approx(20e6 / 41_700 / 3600 * 4)
