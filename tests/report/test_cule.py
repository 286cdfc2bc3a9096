"""The report has table 3 of Dalton & Frosio 2020 (CuLE), with our runs' numbers next to the paper's."""

import math

import numpy as np
import pytest

from accel_rl.metrics.nested import flat
from accel_rl.papers.dalton import COLUMNS, dalton_tables, table_3
from accel_rl.papers.published import published_by
from accel_rl.results.trained_run import TrainedRun


def run_of(column: str, game: str = "pong", scores=(-21.0, 17.0, 18.5), minutes=(1.0, 2.0, 3.0)) -> TrainedRun:
    settings = dict(flat(table_3(game, column).to_dict()))
    steps = np.array([250_000.0, 500_000.0, 1_000_000.0])
    return TrainedRun(
        name=column, game=game, seed=0, setting=column, online=(steps, np.array(scores)),
        evaluations=(steps, np.array(scores)), clock=(steps, np.array(minutes)), env_steps=1e6, wall_s=180.0,
        settings=settings,
    )  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_each_run_is_in_its_own_column(column):
    assert dalton_tables.column(run_of(column).settings) == column
    assert list(COLUMNS) == published_by("dalton")["table_3"]["columns"]


def test_rates_and_time_to_score():
    kfps, updates, minutes, mframes = dalton_tables.measured(run_of("gpu-1200-5"), 18)
    assert kfps == pytest.approx(1e6 / 180 / 1e3) and updates == pytest.approx(1e6 / 180 / 1200)
    assert (minutes, mframes) == (3.0, 1.0)
    *_, minutes, mframes = dalton_tables.measured(run_of("cpu-120-1"), 19)
    assert math.isnan(minutes) and math.isnan(mframes)


@pytest.mark.parametrize("game", published_by("dalton")["table_3"]["games"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_run_as_fast_as_the_papers_has_the_papers_cells(game, column):
    """The report must compute the four numbers in a column of the paper from a run that was made up from these
    numbers."""
    printed = published_by("dalton")["table_3"]
    kfps, updates, minutes, mframes = (row[list(COLUMNS).index(column)] for row in printed["games"][game]["rows"])
    score = printed["games"][game]["score"]
    steps = np.array([1e5, 1e6 * (mframes or 1.0), 2e7])
    run = run_of(column, game, (0.0, score, score))
    run.evaluations = steps, np.array([0.0, score, score])
    run.clock = steps, np.array([0.0, minutes or 1.0, 2 * (minutes or 1.0)])
    run.env_steps, run.wall_s = 1e6 * kfps, 1e3
    ours = dalton_tables.measured(run, score)
    assert ours[0] == pytest.approx(kfps) and ours[1] == pytest.approx(updates, rel=0.04)
    if minutes:
        assert ours[2:] == pytest.approx([minutes, mframes])


@pytest.mark.parametrize("column", COLUMNS)
def test_runs_are_long_enough_and_evaluated_on_the_papers_grid(column):
    printed = published_by("dalton")["table_3"]["games"].values()
    cells = [game["rows"][3][list(COLUMNS).index(column)] for game in printed]
    config = table_3(column=column)
    assert config.env_steps >= 1e6 * max(c for c in cells if c)
    assert all(c is None or (1e6 * c) % config.evaluation.interval == 0 for c in cells)


def test_the_table_has_the_papers_cells_beside():
    (table,) = dalton_tables.tables(
        [run_of("gpu-1200-20"), run_of("gpu-1200-20", minutes=(2.0, 4.0, 6.0)), run_of("cpu-120-1")]
    )
    cells = dict(zip(table.columns, table.rows[2], strict=True))
    assert table.rows[2][0] == "minutes"
    assert cells["gpu-1200-20"] == "4.5" and cells["gpu-1200-20 (paper)"] == "3.1"
    assert cells["gpu-1200-1"] == "" and cells["gpu-1200-1 (paper)"] == "-"
    assert not dalton_tables.tables([])
