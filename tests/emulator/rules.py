"""Compares the reward, the lives and the end of the game that ale-py and our emulator compute from the console's RAM.

ale-py and our emulator play the ROM IDLE in place of the game's ROM, so that a test can set the RAM. A press of SELECT
or of the joystick increments all bytes of the RAM, because ale-py selects a game's mode by pressing SELECT until a byte
has the mode's number.
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
    """ale-py and our emulator, which play the ROM IDLE with the rules of a game."""

    def __init__(self, game: str, folder: Path) -> None:
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        # Fill the RAM with 0, 1, addresses or ROM bytes: the first of these with which the game is not over at once.
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
        if self.ale.game_over():  # In some games, ale-py's saved state does not say whether the game is over.
            self.ale.reset_game()
            self.ours.reset()

    def fill(self, ram: np.ndarray) -> None:
        for i, value in enumerate(ram.tolist()):
            self.set(i, value)

    def set(self, i: int, value: int) -> None:
        self.ale.setRAM(i, value)
        self.ours.set_ram(i, value)

    def act(self) -> list[tuple[str, Any, Any]]:
        """Play one frame, and return a tuple (name, our value, ale-py's value) for each value that differs."""
        theirs, our = self.ale.act(0), self.ours.act(0)
        both = (
            ("reward", our, theirs),
            ("lives", self.ours.lives, self.ale.lives()),
            ("over", self.ours.game_over, self.ale.game_over()),
        )
        return [b for b in both if b[1] != b[2]]


def sweep(pair: Pair, ram: np.ndarray, addresses: list[int], values: range = range(256)) -> Iterator[tuple]:
    """Play frames in which the byte at one of the `addresses` has one of the `values`, and all other bytes are those of
    `ram`.

    Yields the differences as (address, value before, value, *difference).
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
