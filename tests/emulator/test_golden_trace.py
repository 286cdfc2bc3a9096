"""The checksums of 8 games on this machine equal the recorded checksums (golden_trace.py)."""

import json

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from tests.emulator.golden_trace import EXPECTED, GAMES, checksums
from tests.marks import slow

# Games of the fast tests. The slow tests, .ci/baseline and .ci/aarch64 play all games.
QUICK = ("breakout", "montezuma_revenge", "robotank")


@pytest.mark.parametrize("game", [g if g in QUICK else slow(g) for g in GAMES])
def test_a_games_checksums_are_the_expected_ones(game: str) -> None:
    assert checksums(game) == json.loads(EXPECTED.read_text())[game]
