"""A small 6502 assembler for test ROMs of 2 or 4 KB.

    start:  ldx #0          ; label, mnemonic, operand, comment
            stx COLUBK      ; TIA and RIOT registers are known by name
    SCORE = $80             ; constant
            .byte 1, 2, $FF
            .org $F800
            .align 256
            .fill 5, nop    ; repeat a byte or a mnemonic without operand

The reset vector points to `start`. The assembler uses zero-page addressing if the operand's value is known and below
256. Expressions: numbers ($hex, %binary, decimal), labels, + - * ( ) and the low/high byte operators < and >.
"""

import re

# 6502 code for the vertical sync pulse that begins a frame. Register A must be 2.
SYNC = """\
        sta VSYNC
        sta WSYNC
        sta WSYNC
        sta WSYNC
        lda #0
        sta VSYNC
"""
REGISTERS = {
    name: address
    for address, name in enumerate(
        ["VSYNC", "VBLANK", "WSYNC", "RSYNC", "NUSIZ0", "NUSIZ1", "COLUP0", "COLUP1", "COLUPF", "COLUBK", "CTRLPF", "REFP0", "REFP1", "PF0", "PF1", "PF2", "RESP0", "RESP1", "RESM0", "RESM1", "RESBL", "AUDC0", "AUDC1", "AUDF0", "AUDF1", "AUDV0", "AUDV1", "GRP0", "GRP1", "ENAM0", "ENAM1", "ENABL", "HMP0", "HMP1", "HMM0", "HMM1", "HMBL", "VDELP0", "VDELP1", "VDELBL", "RESMP0", "RESMP1", "HMOVE", "HMCLR", "CXCLR"]  # noqa: E501
    )
} | {
    name: 0x30 + i
    for i, name in enumerate(
        ["CXM0P", "CXM1P", "CXP0FB", "CXP1FB", "CXM0FB", "CXM1FB", "CXBLPF", "CXPPMM", "INPT0", "INPT1", "INPT2", "INPT3", "INPT4", "INPT5"]  # noqa: E501
    )
} | {
    "SWCHA": 0x280, "SWACNT": 0x281, "SWCHB": 0x282, "SWBCNT": 0x283, "INTIM": 0x284, "INSTAT": 0x285,
    "TIM1T": 0x294, "TIM8T": 0x295, "TIM64T": 0x296, "T1024T": 0x297,
}  # fmt: skip

# _TABLE has, for each mnemonic, its opcodes in the addressing modes MODES; "--" is a mode without opcode.
MODES = ["imp", "imm", "zp", "zpx", "zpy", "abs", "abx", "aby", "inx", "iny", "ind", "rel"]
_TABLE = """
adc -- 69 65 75 -- 6d 7d 79 61 71    and -- 29 25 35 -- 2d 3d 39 21 31    asl 0a -- 06 16 -- 0e 1e
bit -- -- 24 -- -- 2c                cmp -- c9 c5 d5 -- cd dd d9 c1 d1    cpx -- e0 e4 -- -- ec
cpy -- c0 c4 -- -- cc                dec -- -- c6 d6 -- ce de             eor -- 49 45 55 -- 4d 5d 59 41 51
inc -- -- e6 f6 -- ee fe             jmp -- -- -- -- -- 4c -- -- -- -- 6c jsr -- -- -- -- -- 20
lda -- a9 a5 b5 -- ad bd b9 a1 b1    ldx -- a2 a6 -- b6 ae -- be          ldy -- a0 a4 b4 -- ac bc
lsr 4a -- 46 56 -- 4e 5e             ora -- 09 05 15 -- 0d 1d 19 01 11    rol 2a -- 26 36 -- 2e 3e
ror 6a -- 66 76 -- 6e 7e             sbc -- e9 e5 f5 -- ed fd f9 e1 f1    sta -- -- 85 95 -- 8d 9d 99 81 91
stx -- -- 86 -- 96 8e                sty -- -- 84 94 -- 8c                brk 00 clc 18 cld d8 cli 58 clv b8
dex ca dey 88 inx e8 iny c8 nop ea pha 48 php 08 pla 68 plp 28 rti 40 rts 60 sec 38 sed f8 sei 78 tax aa
tay a8 tsx ba txa 8a txs 9a tya 98
"""
OPCODES: dict[tuple[str, str], int] = {}
_name = ""
for _word in _TABLE.split():
    if len(_word) == 3:
        _name, _mode = _word, 0
        continue
    if _word != "--":
        OPCODES[_name, MODES[_mode]] = int(_word, 16)
    _mode += 1
for _i, _branch in enumerate(["bpl", "bmi", "bvc", "bvs", "bcc", "bcs", "bne", "beq"]):
    OPCODES[_branch, "rel"] = 0x10 + 0x20 * _i

_SHAPES = [
    (r"\((.+),\s*x\)", "inx"), (r"\((.+)\),\s*y", "iny"), (r"\((.+)\)", "ind"), (r"#(.+)", "imm"),
    (r"(.+),\s*x", "x"), (r"(.+),\s*y", "y"), (r"(.+)", "a"),
]  # fmt: skip
_LENGTH = {"imp": 1, "abs": 3, "abx": 3, "aby": 3, "ind": 3}


def _value(text: str, symbols: dict[str, int], last: bool) -> int | None:
    """Return an expression's value, or None if a label is unknown. Raises NameError for an unknown label in the last
    pass."""
    text = re.sub(r"%([01]+)", r"0b\1", re.sub(r"\$([0-9a-fA-F]+)", r"0x\1", text.strip()))
    low_or_high = text[0] if text[0] in "<>" else ""
    try:
        value = int(eval(text[len(low_or_high) :], {"__builtins__": {}}, symbols))
    except NameError:
        if last:
            raise
        return None
    return value & 0xFF if low_or_high == "<" else (value >> 8) & 0xFF if low_or_high == ">" else value


def _instruction(name: str, operand: str, at: int, symbols: dict[str, int], last: bool) -> bytes:
    if not operand or operand.lower() == "a":
        return bytes([OPCODES[name, "imp"]])
    shape, inner = next((mode, m[1]) for p, mode in _SHAPES if (m := re.fullmatch(p, operand, re.I)))
    value = _value(inner, symbols, last)
    if (name, "rel") in OPCODES:
        offset = 0 if value is None else value - at - 2
        if last and not -128 <= offset <= 127:
            raise ValueError(f"{name} {operand}: branch of {offset} bytes")
        return bytes([OPCODES[name, "rel"], offset & 0xFF])
    if shape in "axy":
        short, long = {"a": ("zp", "abs"), "x": ("zpx", "abx"), "y": ("zpy", "aby")}[shape]
        is_short = value is not None and 0 <= value < 256 and (name, short) in OPCODES
        shape = short if is_short else long
    length = _LENGTH.get(shape, 2)
    return bytes([OPCODES[name, shape]]) + ((value or 0) & 0xFFFF).to_bytes(2, "little")[: length - 1]


def assemble(source: str, size: int = 2048) -> bytes:
    """Assemble a ROM of `size` bytes that ends at $FFFF. Raises ValueError or KeyError."""
    base = 0x10000 - size
    symbols = dict(REGISTERS)
    for last in (False, False, True):
        rom, at = bytearray(b"\xea" * size), base
        for line in source.splitlines():
            line = line.split(";")[0].strip()
            if m := re.match(r"(\w+)\s*=\s*(.+)", line):
                value = _value(m[2], symbols, last)
                if value is not None:
                    symbols[m[1]] = value
                continue
            while m := re.match(r"(\w+):\s*", line):
                symbols[m[1]] = at
                line = line[m.end() :]
            if not line:
                continue
            name, _, operand = line.partition(" ")
            name, operand = name.lower(), operand.strip()
            if name == ".org":
                at = _value(operand, symbols, last) or at
                continue
            if name == ".align":
                n = int(operand)
                at = (at + n - 1) // n * n
                continue
            if name == ".byte":
                code = bytes((_value(v, symbols, last) or 0) & 0xFF for v in operand.split(","))
            elif name == ".fill":
                count, _, what = operand.partition(",")
                code = _instruction(what.strip(), "", at, symbols, last) * (_value(count, symbols, last) or 0)
            else:
                code = _instruction(name, operand, at, symbols, last)
            rom[at - base : at - base + len(code)] = code
            at += len(code)
    if len(rom) != size:
        raise ValueError(f"the code is {len(rom) - size} bytes too long for {size}")
    rom[-4:-2] = rom[-2:] = symbols["start"].to_bytes(2, "little")
    return bytes(rom)
