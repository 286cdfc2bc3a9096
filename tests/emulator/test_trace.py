"""Frame-exactness against ale-py: a part of it here, the whole release protocol under -m slow."""

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import games
from benchmarks.emulator_trace import trace

# Games of the 57 that are known not to be exact yet, and in what.
KNOWN: dict[str, str] = {
    "double_dunk": "start actions, score, end",
    "gopher": "start actions",
    "name_this_game": "start actions",
    "surround": "start actions",
    "yars_revenge": "start actions",
    "wizard_of_wor": "RAM from a collision or a late write on, first at frame 210",
    "berzerk": "start actions (a guess that fits most seeds)",
    "star_gunner": "lives before the first loss",
    "time_pilot": "lives before the first loss",
}

QUICK = ["breakout", "pong", "boxing", "seaquest", "beam_rider", "robotank", "montezuma_revenge", "up_n_down"]


@pytest.mark.parametrize("game", QUICK)
def test_quick_trace_is_exact(game: str) -> None:
    outcome = trace(game, seed=3, frames=300, policy="full", sticky=0.25, resets=1)
    assert outcome.exact, outcome.first or outcome.error


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("game", [g for g in list(games())[:57] if g not in KNOWN])
def test_trace_is_exact(game: str) -> None:
    for policy, sticky in (("random", 0.0), ("held", 0.25), ("full", 0.0)):
        outcome = trace(game, seed=1, frames=5000, policy=policy, sticky=sticky, resets=3)
        assert outcome.exact, outcome.first or outcome.error
