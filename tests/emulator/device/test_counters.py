"""Upper bounds of the operations that a GPU's warp executes per frame (counters.py).

The kernel `step` would be several times as slow if the lanes of a warp diverged, or waited for the plain interpreter.
"""

import json
from statistics import median

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.envs.atari_games import ATARI_57
from tests.emulator.device.compare import FRAME_SKIP
from tests.emulator.device.counters import ENVS, FEW_ENVS, FILE, counters, estimate

RECORDED = json.loads(FILE.read_text())


def test_the_record_has_all_games_within_the_bounds() -> None:
    assert set(RECORDED) == set(ATARI_57)
    assert median(c["iterations"] / c["lane_iterations"] for c in RECORDED.values()) <= 1.15
    assert median(c["iterations"] for c in RECORDED.values()) <= 5500
    assert max(c["slow_percent"] for c in RECORDED.values()) < 0.1
    times = {envs: median(estimate(c, True, envs) for c in RECORDED.values()) for envs in (FEW_ENVS, ENVS)}
    assert times[FEW_ENVS] <= 4.0 and times[ENVS] <= 1e3 * ENVS * FRAME_SKIP / 5e6


# Asteroids uses the instructions PHP, JMP () and (zp,X). Tutankham runs code beside the addresses that switch banks.
@pytest.mark.slow
@pytest.mark.parametrize("game", ["asteroids", "tutankham"])
def test_the_record_is_what_the_kernels_execute(game: str) -> None:
    assert counters(game).items() <= RECORDED[game].items()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("game", ATARI_57)
def test_the_record_of_all_games(game: str) -> None:
    assert counters(game).items() <= RECORDED[game].items()
