"""Preprocessed pictures equal those of slow oracles that read ale-py's grayscale screens."""

import functools
from pathlib import Path

import cv2
import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode, roms

from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.colors import luminance
from accel_rl.envs.preprocess import make_preprocessor
from accel_rl.envs.protocols import FRAMES


def make_ale(rom: Path) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom)
    return ale


def rainbow(lines: int) -> bytes:
    """Return a ROM whose frames have all colours of the console, one background colour per scan line."""
    code = bytearray([0x78, 0xD8, 0xA2, 0xFF, 0x9A])  # 6502 code: SEI; CLD; LDX #$FF; TXS
    frame = 0xF000 + len(code)
    code += bytes([0xA9, 2, 0x85, 0, 0x85, 2, 0x85, 2, 0x85, 2, 0xA9, 0, 0x85, 0, 0x85, 1])  # VSYNC, 3 lines
    for count in (155, lines - 3 - 155):
        code += bytes([0xA0, count])  # LDY #count
        code += bytes([0x85, 2, 0x98, 0x0A, 0x85, 9, 0x88, 0xD0, 0xF7])  # STA WSYNC; TYA; ASL; STA COLUBK; DEY; BNE
    code += bytes([0x4C, frame & 0xFF, frame >> 8])  # JMP
    return bytes(code).ljust(0x7FC, b"\0") + bytes([0x00, 0xF0, 0x00, 0xF0])


@pytest.mark.parametrize(("lines", "rows", "colours"), [(262, 210, 122), (312, 250, 128), (313, 250, 128)])
def test_luminance_of_all_colours(tmp_path: Path, lines: int, rows: int, colours: int) -> None:
    rom = tmp_path / "boxing.bin"  # ale-py loads any ROM of 2 KB under the name of a game of 2 KB.
    rom.write_bytes(rainbow(lines))
    ale = make_ale(rom)
    for _ in range(5):
        ale.act(0)
    screen = ale.getScreen()
    assert screen.shape == (rows, 160)
    assert len(np.unique(screen)) == colours
    assert (luminance(rows)[screen] == ale.getScreenGrayscale()).all()


def test_ntsc_luminance_formula() -> None:
    """The grays of colour 0, from black to white, are those of ale-py's grayscale formula."""
    assert luminance(210)[:16:2].tolist() == [0, 74, 111, 142, 170, 192, 214, 236]


@functools.cache
def last_two(game: str, frames: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Play `frames` frames with random actions, and return the last two raw screens and the last two grayscale
    screens."""
    rom = roms.get_rom_path(game)
    assert rom is not None
    ale = make_ale(rom)
    rng = np.random.default_rng(frames)
    actions = ale.getMinimalActionSet()
    raw, gray = [], []
    for _ in range(frames):
        ale.act(actions[rng.integers(len(actions))])
        if ale.game_over():
            ale.reset_game()
        raw, gray = [*raw[-1:], ale.getScreen()], [*gray[-1:], ale.getScreenGrayscale()]
    return raw, gray


def oracle(kind: str, gray: np.ndarray) -> np.ndarray:
    rows = gray.shape[0]
    if kind == "84x84":
        return cv2.resize(gray, (84, 84), interpolation=cv2.INTER_AREA)
    frame = np.zeros((104, 80), np.uint8)
    for y in range(104):
        for x in range(80):
            if kind == "104x80":
                frame[y, x] = gray[1 + y * (rows - 2) // 104, 2 * x]
            else:
                four = gray[1 + 2 * y : 3 + 2 * y, 2 * x : 2 * x + 2]
                frame[y, x] = (int(four.sum()) + 2) // 4
    return frame


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("game", ["breakout", "seaquest", "air_raid", "journey_escape"])
def test_against_oracle(kind: str, game: str) -> None:
    raw, gray = last_two(game, 150)
    if kind == "104x80-mean" and raw[0].shape[0] != 210:
        pytest.skip("the mean is of 2x2 pixels at 210 rows alone")
    preprocess = make_preprocessor(kind, raw[0].shape[0])
    preprocess.screens[:] = raw
    frame = np.zeros(FRAMES[kind], np.uint8)
    preprocess.both(frame)
    assert (frame == oracle(kind, np.maximum(*gray))).all()
    preprocess.last(frame)
    assert (frame == oracle(kind, gray[1])).all()


@pytest.mark.parametrize("kind", FRAMES)
def test_writes_in_place_into_any_view(kind: str) -> None:
    raw, _ = last_two("breakout", 150)
    preprocess = make_preprocessor(kind, 210)
    preprocess.screens[:] = raw
    expected = np.zeros(FRAMES[kind], np.uint8)
    preprocess.both(expected)
    height, width = FRAMES[kind]
    block = np.full((3, height, width), 7, np.uint8)
    # In `strided[:, ::2]`, neither the rows nor the columns of pixels are contiguous in memory.
    strided = np.full((height, 2 * width), 7, np.uint8)
    for view in (block[1], strided[:, ::2]):
        preprocess.both(view)
        assert (view == expected).all()
    assert (block[::2] == 7).all() and (strided[:, 1::2] == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize("game", ATARI_57)
def test_luminance_in_games(game: str) -> None:
    for frames in (30, 200, 600):
        raw, gray = last_two(game, frames)
        assert (luminance(raw[0].shape[0])[raw] == gray).all()
