"""A game's ROM as blocks of C++ for the lanes of a warp, which kernels/blocks.h includes as a switch.

    | translation.h: a line for each instruction -> where blocks begin -> each block's instructions

A block ends at a jump, at a branch that is taken, and where another block begins. If a branch is not taken, and no
other path leads to the next instruction, its lanes continue in the next block. A block that branches to itself is
repeated within the scan line. Both save choices of a block, which cost a warp about as much as two instructions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

MOST_ROM = 16_384
NO_BLOCK = 0xFFFF
LONGEST = 32
"""A block has at most 32 instructions. At the end of each scan line, the log of a frame is checked for room for another
76 writes. Until the next check, a lane writes at most every third cycle, 26 times, and once with each instruction of a
block that begins within the line."""

_LINE = re.compile(r"T\((\d+), (\w+)\((\w+)\), (\d+)u, (\d+)u, (\d+)u, N_(\d+), N_(\d+)\)")
_JUMPS = {"JMP", "JSR", "JMI", "RTS", "RTI", "BRK"}


@dataclass(frozen=True)
class Instruction:
    """A line T(...) of translation.h. `target` and `behind` are offsets in the ROM; `is_static` tells whether a jump
    always leads to `target`."""

    at: int
    body: str
    name: str
    operand: int
    is_static: int
    zero: int
    target: int
    behind: int

    @property
    def jumps(self) -> bool:
        return self.body in _JUMPS

    @property
    def has_target(self) -> bool:
        return self.body == "BRANCH" or bool(self.is_static)


class Blocks:
    """The blocks of a ROM. `translated` is the text of translation.h, and `kind` the number of the cartridge's kind."""

    def __init__(self, translated: str, kind: int) -> None:
        self.kind = kind
        lines = (line for line in map(_LINE.fullmatch, translated.splitlines()) if line)
        ops = (
            Instruction(int(at), body, name, *map(int, numbers))
            for at, body, name, *numbers in (m.groups() for m in lines)
        )
        self.instructions = {op.at: op for op in ops}
        entries = {int(at) for at in re.findall(r"&&N_(\d+)", translated)}
        targets = {op.target for op in self.instructions.values() if op.has_target}
        self._joins = entries | targets
        behind = {op.behind for op in self.instructions.values() if op.jumps or op.body == "BRANCH"}
        self.starts = sorted(self._cut((entries | targets | behind) & self.instructions.keys()))
        self._number = {at: n for n, at in enumerate(self.starts)}

    def _cut(self, starts: set[int]) -> set[int]:
        """Add starts, so that no block has more than LONGEST instructions."""
        result = set(starts)
        for start in starts:
            for n, op in enumerate(self._run(start, starts), 1):
                if n % LONGEST == 0 and not op.jumps and op.behind in self.instructions:
                    result.add(op.behind)
        return result

    def _run(self, start: int, starts: set[int]) -> Iterator[Instruction]:
        """The instructions from `start` to the end of the block."""
        at = start
        while at in self.instructions:
            op = self.instructions[at]
            yield op
            at = op.behind
            if op.jumps or at in starts:
                return

    @cached_property
    def text(self) -> str:
        """What kernels/blocks.h includes as BLOCKS."""
        table = [NO_BLOCK] * MOST_ROM
        for at, n in self._number.items():
            table[at] = n
        tables = [
            f"constexpr u32 BLOCK_COUNT = {len(self.starts)};",
            f"constexpr CartridgeKind KIND = CartridgeKind({self.kind});",
            f"BLOCK_TABLE u16 BLOCK_OF[] = {{{','.join(map(str, table))}}};",
        ]
        lines = ["#ifdef BLOCK_TABLES", *tables, "#else", *self._cases(), "#endif"]
        return "\n".join(lines) + "\n"

    def _cases(self) -> Iterator[str]:
        starts = set(self.starts)
        for n, start in enumerate(self.starts):
            yield f"BLOCK({n})"
            for op in self._run(start, starts):
                repeats = op.body == "BRANCH" and op.target == start
                leave = f"STAY({n})" if repeats else self._leave(op.target)
                yield f"T({op.at}, {op.body}({op.name}), {op.operand}u, {op.is_static}, {op.zero}u, {leave})"
            follows = n + 1 < len(self.starts) and op.behind == self.starts[n + 1]
            if not op.jumps:
                yield f"STAY({n + 1})" if follows and op.behind not in self._joins else self._leave(op.behind)

    def _leave(self, at: int) -> str:
        return f"LEAVE({self._number.get(at, NO_BLOCK)}u, {at}u)"
