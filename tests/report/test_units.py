"""The units in papers' tables of speeds (env steps or frames) follow from other numbers in the same paper."""

import pytest

from accel_rl.papers.dalton import BATCHES, COLUMNS
from accel_rl.papers.published import published_by

CULE = published_by("dalton")["table_3"]
STOOKE = published_by("stooke")
DALEY = published_by("daley")
FRAMES = 4  # Number of emulated frames per env step.
FULL = 50_000_000  # Env steps of a run in the papers' tables of hours.


@pytest.mark.parametrize("game", CULE["games"])
@pytest.mark.parametrize("column", COLUMNS)
def test_cules_frames_are_env_steps(game, column):
    """In table 3 of Dalton & Frosio, frames/s equal updates/s x environments x SPU (env steps per update)."""
    kfps, updates, minutes, mframes = (row[list(COLUMNS).index(column)] for row in CULE["games"][game]["rows"])
    _, envs, batches, ranks = COLUMNS[column]
    _, steps_per_update = BATCHES[batches]
    assert 1e3 * kfps == pytest.approx(updates * envs * ranks * steps_per_update, rel=0.04)
    # The paper prints 3.0 M frames for Ms. Pac-Man on four GPUs, but rate x time is 5.1 M.
    slip = (game, column) == ("ms_pacman", "gpu-4x1200-20")
    if minutes is not None and mframes is not None and not slip:
        # The paper rounds frames to half a million.
        assert kfps * 60 * minutes / 1e3 == pytest.approx(mframes, rel=0.15, abs=0.25)


def test_cules_raw_frames_are_four_times_its_training_frames():
    """The raw frames/s in section 4 of Dalton & Frosio, 142,000 to 187,000, are four times the 4-GPU frames/s of table
    3."""
    rates = [1e3 * FRAMES * game["rows"][0][-1] for game in CULE["games"].values()]
    assert min(rates) == pytest.approx(142e3, rel=0.01) and max(rates) == pytest.approx(187e3, rel=0.01)


def test_stookes_samples_are_env_steps():
    """Stooke & Abbeel, section 5.2, equate 35,000 samples/s and 500 million emulator frames per hour."""
    rates = [cell for cells in STOOKE["table_1"]["simulators"].values() for cell in cells]
    above = [r for r in rates if r > 35]
    assert len(above) == 4 and min(above) * 1e3 * 3600 * FRAMES == pytest.approx(500e6, rel=0.05)


@pytest.mark.parametrize(("table", "algorithm"), [(t, a) for t in (2, 3) for a in STOOKE[f"table_{t}"]["algorithms"]])
def test_stookes_hours_are_for_50_million_env_steps(table, algorithm):
    """At 50 M env steps per run, no training is faster than the fastest sampling, and more GPUs take fewer hours."""
    hours = [h for h in STOOKE[f"table_{table}"]["algorithms"][algorithm] if h is not None]
    fastest = 1e3 * max(cell for cells in STOOKE["table_1"]["simulators"].values() for cell in cells)
    assert all(FULL / (3600 * h) < fastest for h in hours) and hours == sorted(hours, reverse=True)
    assert FULL / (3600 * hours[-1]) < fastest < FRAMES * FULL / (3600 * 0.59), "frames would be faster than sampling"


def test_stookes_speed_ups():
    """In sections 5.3 and 5.4, A2C and Categorical DQN are 6 x as fast on 8 GPUs. On one GPU, DQN takes 8 h, and
    Rainbow 14 h."""
    a2c, c51 = STOOKE["table_2"]["algorithms"]["A2C"], STOOKE["table_3"]["algorithms"]["Categorical-DQN-2048"]
    assert a2c[0] / a2c[-1] > 6 and c51[0] / c51[-1] == pytest.approx(6, rel=0.02) and c51[-1] < 2
    assert round(STOOKE["table_3"]["algorithms"]["DQN-512"][0]) == 8
    assert round(STOOKE["table_3"]["algorithms"]["epsilon-Rainbow-512"][0]) == 14


def test_daleys_percentages_and_speed_ups_are_of_its_hours():
    first = DALEY["table_1"]["threads"]["1"][0][0]
    for threads, cells in DALEY["table_1"]["threads"].items():
        for i, cell in enumerate(cells):
            if cell is not None:
                assert 100 * cell[0] / first == pytest.approx(DALEY["table_2"]["threads"][threads][i], abs=0.051)
                assert first / cell[0] == pytest.approx(DALEY["table_3"]["threads"][threads][i], abs=0.0051)
