"""The assembler, and quirks of the console's chips: small ROMs compute equal results in ale-py and our emulator."""

import numpy as np
import pytest

from tests.emulator.assembler import SYNC, assemble

FRAME = (
    """
start:  sei
        cld
        ldx #$FF
        txs
frame:  lda #2
        sta WSYNC
"""
    + SYNC
    + """        {code}
        ldy #{lines}
wait:   sta WSYNC
        dey
        bne wait
        jmp frame
"""
)


def test_assembler_encodes_modes_and_vectors() -> None:
    rom = assemble("start: lda #<data\n sta $80,x\n lda (5),y\n jmp (data)\ndata: .byte 1, $ff\n")
    assert rom[:10] == bytes.fromhex("a9099580b1056c09f801")
    assert rom[-4:] == bytes.fromhex("00f800f8")


# Maps a name to the code of one frame, which stores results in the RAM from $80.
ROMS = {
    "timer runs out": "".join(
        f" lda #{value}\n sta {register}\n" + "".join(f" lda INTIM\n sta ${0x80 + 20 * i + k:x}\n" for k in range(20))
        for i, (register, value) in enumerate([("TIM1T", 30), ("TIM8T", 3), ("TIM64T", 0)])
    ),
    "timer flag": " lda #1\n sta TIM8T\n lda INSTAT\n sta $80\n nop\n nop\n nop\n lda INSTAT\n sta $81\n lda INTIM\n lda INSTAT\n sta $82\n",  # noqa: E501
    "decimal": " sed\n sec\n lda #$99\n adc #$01\n php\n sta $80\n pla\n sta $81\n sec\n lda #$0F\n sbc #$9A\n sta $82\n cld\n",  # noqa: E501
    "page cross": " ldx #$85\n lda #9\n sta TIM1T\n lda $02FF,x\n sta $80\n",
    "pull from TIA": " ldx #$FF\n txs\n pla\n sta $80\n ldx #$FF\n txs\n",
    "jump over a page": " lda #$4C\n sta $80\n lda $80\n sta $81\n",
    "ports": " lda SWCHA\n sta $80\n lda SWCHB\n sta $81\n lda INPT0\n sta $82\n lda INPT4\n sta $83\n",
}


@pytest.mark.parametrize("name", ROMS)
def test_quirk(name: str, tmp_path) -> None:
    ale_py = pytest.importorskip("ale_py")
    pytest.importorskip("accel_rl.emulator._core")
    from accel_rl.emulator import AtariEmulator

    rom = assemble(FRAME.format(code=ROMS[name], lines=230))
    (tmp_path / "boxing.bin").write_bytes(rom)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(tmp_path / "boxing.bin")
    ours = AtariEmulator("boxing", rom=rom)
    for action in (0, 1, 5, 17):
        ale.act(action)
        ours.act(action)
        np.testing.assert_array_equal(ours.ram(), ale.getRAM())
