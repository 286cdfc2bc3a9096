"""Compares reward, lives and end of the game that ale-py and our emulator compute from a given RAM.

Both emulators play a ROM that changes the RAM only at a press of SELECT or of the joystick, which increments all bytes.
ale-py selects a game's mode by pressing SELECT until a byte has the mode's number. The ROM keeps its last inputs in Y.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.emulator import AtariEmulator
from tests.emulator.assembler import assemble

IDLE = """
start:  sei
        cld
        ldx #$80
clear:  {fill}
        sta $00,x
        inx
        bne clear
        ldy #$FF
frame:  lda #2
        sta VSYNC
        sta WSYNC
        sta WSYNC
        lda #0
        sta VSYNC
        lda SWCHB
        and #2
        beq press
        lda SWCHA
        cmp #$FF
        bne press
        ldy #$FF
        jmp frame
press:  cpy #0          ; still the same press
        beq frame
        ldy #0
        ldx #0
count:  inc $80,x
        inx
        bpl count
        jmp frame
"""


class Pair:
    """ale-py and our emulator with the idle ROM and the rules of a game."""

    def __init__(self, game: str, folder: Path) -> None:
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        # Use the first ROM with which the game is not over immediately.
        for fill in ("lda #0", "lda #1", "txa", "lda $F700,x"):
            rom = assemble(IDLE.format(fill=fill))
            (folder / f"{game}.bin").write_bytes(rom)
            self.ale = ale_py.ALEInterface()
            self.ale.setFloat("repeat_action_probability", 0.0)
            self.ale.loadROM(folder / f"{game}.bin")
            if not self.ale.game_over():
                break
        self.ours = AtariEmulator(game, rom=rom)
        self.start = self.ale.cloneState(), self.ours.save()

    def restart(self) -> None:
        self.ale.restoreState(self.start[0])
        self.ours.restore(self.start[1])
        if self.ale.game_over():  # In some games, ale-py does not save that a game is over.
            self.ale.reset_game()
            self.ours.reset()

    def fill(self, ram: np.ndarray) -> None:
        for i, value in enumerate(ram.tolist()):
            self.set(i, value)

    def set(self, i: int, value: int) -> None:
        self.ale.setRAM(i, value)
        self.ours.set_ram(i, value)

    def act(self) -> list[tuple[str, Any, Any]]:
        """Play one frame. Returns each differing value as (name, ours, theirs)."""
        theirs, our = self.ale.act(0), self.ours.act(0)
        both = (
            ("reward", our, theirs),
            ("lives", self.ours.lives, self.ale.lives()),
            ("over", self.ours.game_over, self.ale.game_over()),
        )
        return [b for b in both if b[1] != b[2]]


def sweep(pair: Pair, ram: np.ndarray, addresses: list[int], values: range = range(256)) -> Iterator[tuple]:
    """Set each byte of the RAM to each value, and all other bytes as in `ram`.

    Yields (address, value before, value, *difference).
    """
    for i in addresses:
        pair.restart()
        pair.fill(ram)
        pair.act()
        before = int(ram[i])
        for value in [*values, before]:
            pair.set(i, value)
            for difference in pair.act():
                yield (128 + i, before, value, *difference)
            if pair.ale.game_over() or pair.ours.game_over:
                pair.restart()
                pair.fill(ram)
                pair.act()
                before = int(ram[i])
            else:
                before = value
