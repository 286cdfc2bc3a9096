"""Quirks of the TIA (the console's picture chip): small ROMs draw equal pictures in ale-py and our emulator."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator
from tests.emulator.assembler import SYNC, assemble
from tests.emulator.tia_programs import EXPERIMENTS, LINES, pause, program
from tests.marks import slow

TESTS = 45  # number of test cases in one picture; each has four scan lines

FRAME = """
start:  sei
        cld
        lda #$0E
        sta COLUP1
        lda #{shape}
        sta {show}
frame:  lda #2
{sync}        ldx #33
top:    sta WSYNC
        dex
        bne top
{code}
        ldx #45
bottom: sta WSYNC
        dex
        bne bottom
        jmp frame
"""


def reset_twice(register: str, copies: int, first: int, motion: int, second: int) -> str:
    """Return 6502 code that resets the position of a TIA object, moves it, and resets it again in the same scan
    line."""
    return f"""
 sta WSYNC
 lda #{copies}
 sta NUSIZ1
 lda #{motion << 4}
 sta {register.replace("RES", "HM")}
{pause(first - 13)}
 sta {register}
 sta WSYNC
 sta HMOVE
 sta WSYNC
 sta WSYNC
{pause(second - 3)}
 sta {register}
"""


def side_by_side(rom: bytes, folder: Path, frames: int = 1) -> tuple[Any, AtariEmulator]:
    """Play `frames` frames of the ROM in ale-py and our emulator, and return the two emulators.

    The ROM is named amidar, because neither emulator selects a mode of this 4 KB game.
    """
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    (folder / "amidar.bin").write_bytes(rom)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(folder / "amidar.bin")
    ours = AtariEmulator("amidar", rom=rom)
    for _ in range(frames):
        ale.act(0)
        ours.act(0)
    return ale, ours


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
@pytest.mark.parametrize(("register", "show", "shape"), [("RESP1", "GRP1", 0xB5), ("RESM1", "ENAM1", 2)])
def test_an_object_reset_near_its_copies(register: str, show: str, shape: int, seed: int, tmp_path) -> None:
    rng = random.Random(seed)
    cases = []
    for _ in range(TESTS):
        first = rng.randrange(25, 70)
        near = min(70, max(8, first + rng.randrange(-4, 8)))
        cases.append((rng.randrange(8), first, rng.randrange(16), rng.choice([near, first, rng.randrange(8, 70)])))
    code = "".join(reset_twice(register, *case) for case in cases)
    ale, emulator = side_by_side(assemble(FRAME.format(sync=SYNC, code=code, show=show, shape=shape), 4096), tmp_path)
    theirs, ours = ale.getScreen(), emulator.screen()
    assert len(np.unique(theirs)) > 1
    lines = sorted({int(y) for y in np.nonzero(theirs != ours)[0]})
    assert not lines, [(y, cases[y // 4]) for y in lines if y // 4 < TESTS]


BUTTONS = """
start:  sei
        cld
frame:  lda #2
{sync}{code}
        ldx #200
bottom: sta WSYNC
        dex
        bne bottom
        jmp frame
"""


@pytest.mark.parametrize("seed", range(3))
def test_buttons_read_while_vblank_holds_them_or_not(seed: int, tmp_path) -> None:
    """Our emulator reads buttons as ale-py does. Bit 6 of VBLANK, which latches INPT4 in a real TIA, is ignored."""
    rng, code = random.Random(seed), ""
    for i in range(100):
        code += f" lda #{rng.choice([0, 0x40, 0x80, 0xC0, 2, 0x42])}\n sta VBLANK\n" if rng.random() < 0.5 else ""
        code += " sta WSYNC\n" if rng.random() < 0.3 else ""
        code += f" lda INPT{rng.choice([4, 4, 5])}\n sta ${0x80 + i:02X}\n"
    ale, ours = side_by_side(assemble(BUTTONS.format(sync=SYNC, code=code), 4096), tmp_path)
    seen = set()
    for _ in range(40):
        action = rng.choice([0, 1])
        ale.act(action)
        ours.act(action)
        assert (ale.getRAM() == ours.ram()).all()
        seen |= {*ours.ram()[:100] & 0x80}
    assert seen == {0, 0x80}


STARS = """
start:  sei
        cld
        lda #$0E
        sta COLUP0
        lda #$46
        sta COLUP1
        lda #2
        sta ENAM0
        sta ENAM1
        lda #$3C
        sta GRP0
frame:  lda #2
{sync}        ldx #33
top:    sta WSYNC
        dex
        bne top
{code}
        ldx #20
bottom: sta WSYNC
        dex
        bne bottom
        jmp frame
"""


@pytest.mark.parametrize("seed", [0, *map(slow, (1, 2, 3))])
def test_stars(seed: int, tmp_path) -> None:
    """Missiles become stars if HMM0 changes from 7 to 6 in cycle 21 after HMOVE. The pictures of ale-py and our
    emulator must be equal, also in the scan lines after a star."""
    rng, code = random.Random(seed), ""
    for _ in range(18):
        since = rng.choice([21, 21, 21, 20, 22])
        code += f" lda #{rng.randrange(8) | rng.randrange(4) << 4}\n sta NUSIZ0\n"
        code += f" lda #{0x70 | rng.randrange(16)}\n sta HMM0\n"
        code += f" lda #{0x60 | rng.randrange(16)}\n sta WSYNC\n{pause(rng.randrange(2, 40))} sta RESM0\n sta WSYNC\n"
        code += f" sta HMOVE\n{pause(since - 3)} sta HMM0\n"
        for _ in range(rng.randrange(2, 10)):
            code += " sta WSYNC\n"
            if rng.random() < 0.3:
                register = rng.choice(["NUSIZ0", "NUSIZ0", "ENAM0", "HMCLR", "HMM0", "RESMP0", "CXCLR", "NUSIZ1"])
                code += f" lda #{rng.choice([0, 2, 0x10, 0x25, 0x70])}\n{pause(rng.randrange(2, 40))} sta {register}\n"
        code += " lda #2\n sta ENAM0\n lda #0\n sta RESMP0\n"
    theirs, ours = side_by_side(assemble(STARS.format(sync=SYNC, code=code), 4096), tmp_path, frames=3)
    screens = theirs.getScreen() != ours.screen()
    assert not screens.any(), sorted({int(y) for y in np.nonzero(screens)[0]})
    assert len(np.unique(theirs.getScreen())) > 1


def check_programs(seeds: range, writes: int, folder: Path) -> None:
    for seed in seeds:
        rom, written = program(seed, writes)
        theirs, ours = side_by_side(rom, folder, frames=2)
        screens = theirs.getScreen() != ours.screen()
        looks = (theirs.getRAM() != ours.ram())[: 2 * EXPERIMENTS]
        bad = {int(y) // LINES for y in np.nonzero(screens)[0]} | {int(i) // 2 for i in np.nonzero(looks)[0]}
        assert not bad, (seed, [(i, written[i]) for i in sorted(bad) if i < EXPERIMENTS])


@pytest.mark.parametrize("writes", [3, 12, *map(slow, (1, 2, 6))])
def test_random_programs(writes: int, tmp_path) -> None:
    check_programs(range(1), writes, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("writes", [1, 2, 3, 6, 12])
def test_many_random_programs(writes: int, tmp_path) -> None:
    check_programs(range(1000, 1100), writes, tmp_path)
