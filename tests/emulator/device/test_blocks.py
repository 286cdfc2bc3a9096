"""Games that run as compiled blocks of 6507 instructions play exactly as in the kernel for all games."""

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.device import block_kernel
from accel_rl.emulator.device.block_kernel import blocks_of
from accel_rl.emulator.device.blocks import LONGEST, MOST_ROM, NO_BLOCK, Blocks
from accel_rl.envs.atari_games import ATARI_57
from tests.emulator.device.blocks_on_host import Played, compiled, play
from tests.emulator.device.test_cuda_on_cpu import planted

NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")


@pytest.fixture(scope="module")
def pong() -> Blocks:
    return blocks_of("pong")


@pytest.mark.slow
def test_blocks_are_numbered_in_the_order_of_the_rom(pong: Blocks) -> None:
    assert pong.starts == sorted(pong.starts)
    assert re.findall(r"^BLOCK\((\d+)\)", pong.text, re.M) == [str(n) for n in range(len(pong.starts))]
    table = [int(n) for n in re.search(r"BLOCK_OF\[\] = \{(.*)\}", pong.text)[1].split(",")]  # type: ignore[index]
    assert len(table) == MOST_ROM
    assert {at: n for at, n in enumerate(table) if n != NO_BLOCK} == {at: n for n, at in enumerate(pong.starts)}


@pytest.mark.slow
def test_a_block_leads_to_the_block_that_begins_there(pong: Blocks) -> None:
    left = re.findall(r"LEAVE\((\d+)u, (\d+)u\)", pong.text)
    assert len(left) > 200
    for n, at in left:
        assert int(n) == NO_BLOCK or pong.starts[int(n)] == int(at)


def test_no_block_is_longer_than_the_log_allows() -> None:
    """A program of 100 instructions without a branch is divided into blocks of at most 32 instructions."""
    lines = [f"T({at}, IMPLY(INX), 0u, 0u, 0u, N_{at + 1}, N_{at + 1})" for at in range(100)]
    made = Blocks("\n".join(["&&N_0,", *lines]), 1)
    assert made.starts == [0, 32, 64, 96]
    assert max(len(block.splitlines()) for block in re.split(r"BLOCK\(\d+\)", made.text)[1:]) <= LONGEST + 3


def test_a_loop_stays_in_its_block_and_a_join_begins_one() -> None:
    """The test's program is 10: DEX; 11: BNE 10; 13: LDA #1; 15: BEQ 13; 17: RTS. The program can be entered at 10 and
    13."""
    text = """&&N_10,&&N_13,
T(10, IMPLY(DEX), 0u, 0u, 0u, N_11, N_11)
T(11, BRANCH(BNE), 1u, 0u, 0u, N_10, N_13)
T(13, READ_IM(LDA), 1u, 0u, 0u, N_15, N_15)
T(15, BRANCH(BEQ), 1u, 0u, 0u, N_10, N_17)
T(17, RTS(RTS), 0u, 0u, 0u, N_18, N_18)
"""
    cases = Blocks(text, 1).text.partition("#else\n")[2]
    assert (
        cases
        == """BLOCK(0)
T(10, IMPLY(DEX), 0u, 0, 0u, LEAVE(65535u, 11u))
T(11, BRANCH(BNE), 1u, 0, 0u, STAY(0))
LEAVE(1u, 13u)
BLOCK(1)
T(13, READ_IM(LDA), 1u, 0, 0u, LEAVE(65535u, 15u))
T(15, BRANCH(BEQ), 1u, 0, 0u, LEAVE(0u, 10u))
STAY(2)
BLOCK(2)
T(17, RTS(RTS), 0u, 0, 0u, LEAVE(65535u, 18u))
#endif
"""
    )


def check(played: Played) -> None:
    found = played.summary()
    assert not played.differs and found["differing"] == 0, found
    assert found["compared"] and found["dispatches"] > 100


@pytest.mark.slow
@NEEDS_COMPILER
@pytest.mark.parametrize("game", ["breakout", "montezuma_revenge", "robotank"])  # 2K, E0, FE
def test_a_game_plays_as_the_host_build(game: str, tmp_path: Path) -> None:
    blocks = blocks_of(game)
    check(play(game, compiled(blocks, tmp_path), blocks, steps=30))


@NEEDS_COMPILER
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("game", ATARI_57)
def test_all_games_play_as_the_host_build(game: str, tmp_path: Path) -> None:
    """300 agent steps are played, because a corrected error in decimal additions became visible only after 93 steps."""
    blocks = blocks_of(game)
    check(play(game, compiled(blocks, tmp_path), blocks, steps=300))


FAULTS = {
    "a decimal carry": (
        "ms_pacman", "device/kernels/blocks.h", "c = m >> 8 & 1; v", "c = 0; v",
    ),
    "the cycle of a crossed page": (
        "seaquest", "core/fast/bodies.h", "cycle += i32(ARG & 3);", "cycle += 1;",
    ),
    "a flag": ("breakout", "core/fast/bodies.h", "#define DO_DEX x = nz =", "#define DO_DEX x ="),
    "the end of a line": ("breakout", "device/kernels/blocks.h", "line = s.tia.frame_clock / 3;", "line = cycle;"),
}  # fmt: skip


@NEEDS_COMPILER
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path) -> None:
    game, *change = FAULTS[fault]
    blocks = blocks_of(game)
    played = play(game, compiled(blocks, tmp_path, planted(tmp_path, *change)), blocks, steps=300)
    assert played.counts.differing


@NEEDS_COMPILER
@pytest.mark.slow
def test_a_wrong_chain_is_found(tmp_path: Path) -> None:
    """A planted fault is found: a block of Breakout continues in a wrong block."""
    blocks = blocks_of("breakout")
    falls = re.findall(r"^STAY\((\d+)\)", blocks.text, re.M)
    blocks.text = blocks.text.replace(f"\nSTAY({falls[3]})", f"\nSTAY({falls[4]})")
    assert play("breakout", compiled(blocks, tmp_path), blocks, steps=60).counts.differing


@pytest.mark.slow
def test_a_game_that_cannot_be_compiled_is_interpreted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cuda/bindings").mkdir(parents=True)
    for file, text in (("__init__", ""), ("bindings/__init__", ""), ("bindings/nvrtc", "raise ImportError")):
        (tmp_path / f"cuda/{file}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    block_kernel.begin.cache_clear()
    assert block_kernel.begin("pong", 0).result(60) is None
    block_kernel.begin.cache_clear()
    why = "pong is interpreted on the GPU: the emulator on a GPU needs NVRTC (ImportError): "
    assert capfd.readouterr().err.startswith(why)


@pytest.mark.parametrize(("translate", "variable", "on"), [(True, "", True), (False, "", False), (True, "off", False)])
def test_translation_is_switched_off(monkeypatch: pytest.MonkeyPatch, translate: bool, variable: str, on: bool) -> None:
    monkeypatch.setattr(block_kernel.translation, "is_stale", lambda: False)
    monkeypatch.setenv("ACCEL_RL_TRANSLATE", variable)
    assert block_kernel.is_on(translate) is on
