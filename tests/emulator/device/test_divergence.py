"""How many iterations a warp makes: lanes that drift apart would make the step kernel several times as slow."""

from statistics import median

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.games import games
from tests.emulator.device.compare import Divergence, divergence


def check(found: list[Divergence]) -> None:
    """Medians over games."""
    assert median(d.ratio for d in found) <= 1.15
    assert median(d.iterations_per_frame for d in found) <= 6500


@pytest.mark.slow
def test_divergence_of_some_games() -> None:
    check([divergence(game, frames=120, warmup=80) for game in ("breakout", "pong", "seaquest", "qbert", "enduro")])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_divergence_of_all_games() -> None:
    check([divergence(game) for game in list(games())[:57]])
