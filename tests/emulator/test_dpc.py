"""The DPC chip of pitfall2's cartridge: ROMs with random reads and writes give equal results in ale-py and our
emulator."""

import random
from pathlib import Path

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator
from tests.emulator.assembler import SYNC, assemble
from tests.emulator.tia_programs import pause
from tests.marks import slow

READS = 110  # number of reads from the DPC chip per frame, each of which is stored in a byte of RAM
PROGRAM = """
        .org $F100
start:  sei
        cld
        ldx #$FF
        txs
frame:  lda #2
{sync}{code}
        ldx #{lines}
bottom: sta WSYNC
        dex
        bne bottom
        jmp frame
"""


def access(rng: random.Random) -> str:
    """Return 6502 code for a random write to the DPC chip, or for a random read whose value is not stored."""
    form, i = rng.choice([0, 0, 1, 1, 2, 2, 3, 3, 6, 4, 5, 7]), rng.randrange(8)
    value = rng.choice([rng.randrange(256), rng.randrange(16), rng.randrange(16) | 0x10, 0x12])
    other = rng.choice([0xFFF8, 0xFFF9, 0xFFC0, 0xFFBF, 0xFFF3, 0xF090, 0xF040 + rng.randrange(64)])
    return rng.choice([
        f" lda #{value}\n sta ${0xF040 + 8 * form + i:X}\n",
        f" lda #{value}\n sta ${0xF040 + 8 * form + i:X}\n",
        f" lda #{value}\n sta ${0xF040 + 8 * form + i:X}\n",
        f" lda ${other:X}\n",
        f" sta ${rng.choice([0xFFF8, 0xFFF9, 0xFFC1, 0xF000 + rng.randrange(64)]):X}\n",
        f" ldx #{rng.randrange(64)}\n lda $F000,x\n",
        f" inc ${0xF000 + rng.randrange(128):X}\n",
    ])  # fmt: skip


def program(seed: int) -> bytes:
    """Return a random ROM, which in each frame reads from the DPC chip and stores the bytes in the RAM from $80."""
    rng, code = random.Random(seed), ""
    voices = rng.random() < 0.5
    for n in range(READS):
        for _ in range(rng.randrange(3)):
            code += access(rng)
        code += pause(rng.choice([0, 0, 2, 5, 30]))
        offset = 8 * rng.choice([0, 1, 1, 2, 2, 7, rng.randrange(8)]) + rng.randrange(8)
        if voices and rng.random() < 0.3:
            offset = 4 + rng.randrange(4)
        code += f" lda ${0xF000 + offset:X}\n sta ${0x80 + n:X}\n"
    bank = assemble(PROGRAM.format(sync=SYNC, code=code, lines=rng.choice([180, 200])), 4096)
    return bank + bank + rng.randbytes(2048)


def check(seed: int, folder: Path, frames: int) -> None:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    rom = program(seed)
    (folder / "pitfall2.bin").write_bytes(rom)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(folder / "pitfall2.bin")
    both = [AtariEmulator("pitfall2", rom=rom, fast=fast) for fast in (False, True)]
    for frame in range(frames):
        if frame == frames // 2:
            for machine in (ale.reset_game, *(ours.reset for ours in both)):
                machine()
        ale.act(0)
        for ours in both:
            ours.act(0)
            wrong = [i for i in range(READS) if ale.getRAM()[i] != ours.ram()[i]]
            assert not wrong, (seed, frame, wrong)
    assert len({*ale.getRAM()[:READS]}) > 15


@pytest.mark.parametrize("seed", [0, 1, *map(slow, range(2, 6))])
def test_random_accesses(seed: int, tmp_path) -> None:
    check(seed, tmp_path, 20)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_many_random_accesses(tmp_path) -> None:
    for seed in range(1000, 1060):
        check(seed, tmp_path, 6)
