"""The emulator's checksums on this machine equal those of every other (golden_trace.py)."""

import json

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from tests.emulator.golden_trace import EXPECTED, GAMES, checksums


@pytest.mark.parametrize("game", GAMES)
def test_a_games_checksums_are_the_expected_ones(game: str) -> None:
    assert checksums(game) == json.loads(EXPECTED.read_text())[game]
