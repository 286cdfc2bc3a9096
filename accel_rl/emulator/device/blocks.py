"""Translate a game's ROM to blocks of C++, which kernels/blocks.h includes as the cases of a switch. The lanes of a
GPU's warp run the same block at the same time.

    | translation.h: a line for each instruction -> where blocks begin -> each block's instructions

A block ends at a jump, at a taken branch, and where another block begins. Two rules save choices by the switch, each of
which costs a warp about as much as two instructions. After a branch that is not taken, lanes continue in the next block
if no other path leads to that block. A block that branches to its own start is repeated until the scan line ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

MOST_ROM = 16_384
NO_BLOCK = 0xFFFF
LONGEST = 32
"""Maximum number of instructions in a block. At the end of each scan line, the log of TIA writes must have room for
another 76 writes. Until the next check, a lane writes at most 26 times (every third cycle), and then once per
instruction of a block that begins within the line."""

_LINE = re.compile(r"T\((\d+), (\w+)\((\w+)\), (\d+)u, (\d+)u, (\d+)u, N_(\d+), N_(\d+)\)")
_JUMPS = {"JMP", "JSR", "JMI", "RTS", "RTI", "BRK"}


@dataclass(frozen=True)
class Instruction:
    """One instruction of the ROM, parsed from a line T(...) that translation.h writes. The offsets in the ROM of the
    instruction, of a jump's target and of the following instruction are `offset`, `target` and `behind`. If `is_static`
    is true, a jump always leads to `target`."""

    offset: int
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
    """The blocks of a ROM. `translated` is the text that translation.h writes, and `kind` the number of the cartridge's
    kind."""

    def __init__(self, translated: str, kind: int) -> None:
        self.kind = kind
        self.instructions: dict[int, Instruction] = {}
        for line in filter(None, map(_LINE.fullmatch, translated.splitlines())):
            offset, body, name, *numbers = line.groups()
            self.instructions[int(offset)] = Instruction(int(offset), body, name, *map(int, numbers))
        every = self.instructions.values()
        entries = {int(offset) for offset in re.findall(r"&&N_(\d+)", translated)}
        self._joins = entries | {one.target for one in every if one.has_target}
        behind = {one.behind for one in every if one.jumps or one.body == "BRANCH"}
        self.starts = sorted(self._cut((self._joins | behind) & self.instructions.keys()))
        self._number = {offset: n for n, offset in enumerate(self.starts)}

    def _cut(self, starts: set[int]) -> set[int]:
        """Split blocks with more than LONGEST instructions. Return the offsets at which all blocks start."""
        result = set(starts)
        for start in starts:
            for n, one in enumerate(self._block(start, starts), 1):
                if n % LONGEST == 0 and not one.jumps and one.behind in self.instructions:
                    result.add(one.behind)
        return result

    def _block(self, start: int, starts: set[int]) -> Iterator[Instruction]:
        """Yield the instructions from `start` to the end of the block."""
        offset = start
        while offset in self.instructions:
            one = self.instructions[offset]
            yield one
            offset = one.behind
            if one.jumps or offset in starts:
                return

    @cached_property
    def text(self) -> str:
        """The C++ text that kernels/blocks.h includes as BLOCKS."""
        numbers = (str(self._number.get(offset, NO_BLOCK)) for offset in range(MOST_ROM))
        tables = [
            f"constexpr u32 BLOCK_COUNT = {len(self.starts)};",
            f"constexpr CartridgeKind KIND = CartridgeKind({self.kind});",
            f"BLOCK_TABLE u16 BLOCK_OF[] = {{{','.join(numbers)}}};",
        ]
        return "\n".join(["#ifdef BLOCK_TABLES", *tables, "#else", *self._lines(), "#endif\n"])

    def _lines(self) -> Iterator[str]:
        starts = set(self.starts)
        for n, start in enumerate(self.starts):
            yield f"BLOCK({n})"
            for one in self._block(start, starts):
                repeats = one.body == "BRANCH" and one.target == start
                leave = f"STAY({n})" if repeats else self._leave(one.target)
                place = f"{one.body}({one.name}), {one.operand}u, {one.is_static}, {one.zero}u"
                yield f"T({one.offset}, {place}, {leave})"
            follows = self._number.get(one.behind) == n + 1 and one.behind not in self._joins
            if not one.jumps:
                yield f"STAY({n + 1})" if follows else self._leave(one.behind)

    def _leave(self, offset: int) -> str:
        return f"LEAVE({self._number.get(offset, NO_BLOCK)}u, {offset}u)"
