"""Upper bounds of the operations in which a GPU's warp applies TIA writes and draws pictures (tia_counts.py)."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from tests.emulator.device.tia_counts import counted, library

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.skipif(not shutil.which("g++"), reason="no g++")]


def test_warps_settle_and_draw_together(tmp_path: Path) -> None:
    counter = library(tmp_path)
    for game in ("pong", "breakout", "seaquest", "qbert", "montezuma_revenge"):
        count = counted(counter, game, after=100, steps=4)
        assert count["lane_turns"] > 50 and count["rows"] == 210, game
        assert count["turns"] <= 2.5 * count["lane_turns"], (game, count)
        assert count["cases"] <= 2 * count["turns"], (game, count)
        assert count["searches"] <= 300, (game, count)
        assert count["draw_turns"] <= 200 and count["composes"] <= 60, (game, count)
