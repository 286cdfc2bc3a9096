"""A game's own kernel is used only if it had equal results and a higher speed than the kernel for all games in a
trial."""

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.device.block_kernel import GameKernel, Trial, packed, unpacked
from accel_rl.emulator.device.nvrtc import Compiled
from tests.emulator.device.test_cuda_on_cpu import libcuda, planted, played

TRIAL = Trial([[1.5, 2.0], [4.0, 3.0]])


@pytest.mark.parametrize(("lanes", "own"), [(1, True), (4, True), (11, True), (12, False), (32, False)])
def test_the_faster_kernel_is_used(lanes: int, own: bool) -> None:
    assert TRIAL.prefers_own(lanes) is own
    assert not TRIAL._replace(differs="reward").prefers_own(lanes)


def test_the_child_process_passes_kernel_and_trial() -> None:
    kernel = GameKernel(Compiled(b"code\n\0of a kernel", "log\n"), TRIAL)
    assert unpacked(packed(kernel)) == kernel


def test_the_trial_is_told_in_one_line() -> None:
    assert str(TRIAL) == "1.5 and 4.0 ms a step by its own kernel, 2.0 and 3.0 ms by that of all games (stored)"
    assert "not used, because it differs" in str(TRIAL._replace(differs="reward in step 3"))


STAND_IN = [
    pytest.mark.needs("cuda.bindings.driver"),
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("g++") or sys.platform != "linux", reason="no g++, or no libcuda.so.1"),
]


class TestOnTheStandIn:
    pytestmark = STAND_IN

    def test_an_equal_kernel_is_timed_and_the_trial_is_stored(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        ((first, second),) = played(libcuda(tmp_path, translated="breakout"), [{"game": "breakout"}])
        milliseconds, differs = first
        assert not differs and [len(pair) for pair in milliseconds] == [2, 2]
        assert all(ms > 0 for pair in milliseconds for ms in pair)
        assert second == first and len(list((tmp_path / "cache/accel_rl").glob("emulator-breakout-trial-*"))) == 1

    def test_a_kernel_that_differs_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        sources = planted(tmp_path, "device/kernels/blocks.cu", "if (goes && cpu.block == now)", "if (goes)")
        ((first, second),) = played(libcuda(tmp_path, sources, "breakout"), [{"game": "breakout"}])
        assert first == second and first[1] and not Trial(*first).prefers_own(4)
