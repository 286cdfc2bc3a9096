"""Our emulator's frames equal those of ale-py. The fast tests play a few games, the slow tests the whole release
protocol of trace.py."""

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import games
from tests.emulator.side_by_side import Run, trace
from tests.emulator.trace import mode_runs

QUICK = [
    "robotank",
    "montezuma_revenge",
    "up_n_down",
    "air_raid",  # a PAL game with colour loss
    "elevator_action",  # a cartridge with RAM
    "kaboom",  # paddles
]


@pytest.mark.parametrize("game", QUICK)
def test_quick_trace_is_exact(game: str) -> None:
    outcome = trace(Run(game, seed=3, frames=300, policy="full", sticky=0.25))
    assert outcome.exact, outcome.first or outcome.error


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("game", games())
def test_trace_is_exact(game: str) -> None:
    for policy, sticky in (("random", 0.0), ("held", 0.25), ("full", 0.0)):
        outcome = trace(Run(game, seed=1, frames=5000, policy=policy, sticky=sticky, resets=3))
        assert outcome.exact, outcome.first or outcome.error


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("game", games())
def test_modes_are_exact(game: str) -> None:
    for run in mode_runs(game, 300):
        outcome = trace(run)
        assert outcome.exact, (run, outcome.first or outcome.error)
