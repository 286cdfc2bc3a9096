"""Random programs for the TIA (the console's picture chip), which set registers during VBLANK, and then write registers
at random times.

    experiment  resets at random cycles | registers from a table | HMOVE or not | visible writes | two more lines
                ------------------- VBLANK on --------------------------------- | -- VBLANK off ---
    RAM $80 on  two bytes per experiment, made of its eight collision registers
"""

import random

from tests.emulator.assembler import SYNC, assemble

EXPERIMENTS, LINES = 17, 12  # number of experiments in a ROM, and of scan lines in an experiment
STROBES = ("RESP0", "RESP1", "RESM0", "RESM1", "RESBL", "HMOVE", "HMCLR", "CXCLR")
PREPARED = (
    "NUSIZ0", "NUSIZ1", "CTRLPF", "REFP0", "REFP1", "PF0", "PF1", "PF2", "GRP0", "GRP1", "GRP0", "ENAM0", "ENAM1",
    "ENABL", "VDELP0", "VDELP1", "VDELBL", "HMP0", "HMP1", "HMM0", "HMM1", "HMBL",
)  # fmt: skip
WRITTEN = [*sorted({*PREPARED}), *STROBES, "RESMP0", "RESMP1", "VBLANK", "COLUP0", "COLUPF", "COLUBK"]
PAUSES = (0, 0, 2, 3, 4, 5, 6, 8, 10, 13, 20, 25, 30)

HEAD = (
    """
start:  sei
        cld
        ldx #$FF
        txs
        lda #$1E
        sta COLUP0
        lda #$4A
        sta COLUP1
        lda #$86
        sta COLUPF
        lda #$C2
        sta COLUBK
frame:  lda #2
        sta VBLANK
"""
    + SYNC
    + """        ldx #33
top:    sta WSYNC
        dex
        bne top
        lda #<data
        sta $E0
        lda #>data
        sta $E1
"""
)
TAIL = """
        sta WSYNC
        ldx #20
bottom: sta WSYNC
        dex
        bne bottom
        jmp frame
"""
QUARTER = " lsr\n lsr\n eor {}\n"
LOOK = "".join(
    f" lda {first}\n{''.join(QUARTER.format(register) for register in others)} sta $80,x\n inx\n"
    for first, *others in (["CXM0P", "CXM1P", "CXP0FB", "CXP1FB"], ["CXM0FB", "CXM1FB", "CXBLPF", "CXPPMM"])
)
PREPARE = "".join(f" lda ($E0),y\n sta {register}\n iny\n" for register in PREPARED)
ROUTINES = f"""
look:
{LOOK}
        sta CXCLR
        rts
prep:   ldy #0
{PREPARE}
        clc
        tya
        adc $E0
        sta $E0
        lda #0
        adc $E1
        sta $E1
        rts
data:
"""


def pause(cycles: int) -> str:
    """Return 6502 code that takes `cycles` CPU cycles: 0, or at least 2."""
    return (" bit $80\n" if cycles % 2 else "") + f" .fill {cycles // 2 - cycles % 2}, nop\n"


def value(rng: random.Random, register: str) -> int:
    if register.startswith("NUSIZ"):
        return rng.randrange(8) | rng.randrange(4) << 4
    if register == "CTRLPF":
        return rng.choice([0, 1, 2, 3, 4, 5]) | rng.randrange(4) << 4
    return rng.randrange(256)


def experiment(rng: random.Random, writes: int) -> tuple[str, list[int], list[tuple[str, int, int]]]:
    """Return the 6502 code of a random experiment, its table of register values, and its writes as (register, value,
    cycle)."""
    code, left = " sta WSYNC\n", 55
    for register in rng.sample(STROBES[:5], 5):
        wait = min(rng.choice(PAUSES), left)
        wait -= wait == 1
        left -= wait
        code += pause(wait) + f" sta {register}\n"
    code += " sta WSYNC\n jsr prep\n sta WSYNC\n sta WSYNC\n" + (" sta HMOVE\n" if rng.random() < 0.3 else "")
    code += " sta WSYNC\n lda #0\n sta VBLANK\n"
    cycle, written = 5, []
    for _ in range(writes):
        register = rng.choice(WRITTEN)
        wait = rng.choice(PAUSES[:8]) if writes > 3 else rng.randrange(max(1, 67 - cycle))
        wait -= wait == 1
        load = 0 if register in STROBES else 2
        written.append((register, value(rng, register), cycle + wait + load + 3))
        code += pause(wait) + (f" lda #{written[-1][1]}\n" if load else "") + f" sta {register}\n"
        cycle = written[-1][2]
    code += " sta WSYNC\n" * (2 - min(1, cycle // 76))
    code += " lda #2\n sta WSYNC\n sta VBLANK\n lda #0\n sta RESMP0\n sta RESMP1\n jsr look\n"
    return code, [value(rng, register) for register in PREPARED], written


def program(seed: int, writes: int) -> tuple[bytes, list[list[tuple[str, int, int]]]]:
    """Return a random ROM of 4 KB, and the TIA writes of each of its experiments."""
    rng = random.Random(seed)
    all_of_it = [experiment(rng, writes) for _ in range(EXPERIMENTS)]
    tables = "".join(" .byte " + ",".join(map(str, table)) + "\n" for _, table, _ in all_of_it)
    code = "".join(text for text, _, _ in all_of_it)
    return assemble(HEAD + " ldx #0\n" + code + TAIL + ROUTINES + tables, 4096), [e[2] for e in all_of_it]
