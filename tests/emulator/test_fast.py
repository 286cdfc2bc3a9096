"""The emulator's fast core plays the same frames as its plain core. Each core can load states that the other core has
saved."""

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator
from accel_rl.emulator.env_core import make_env_core, step_env_cores
from accel_rl.envs.colors import luminance
from accel_rl.envs.preprocess import make_preprocessor
from tests.emulator.assembler import SYNC, assemble
from tests.marks import slow

# games with 2K, F8, F6, E0 and FE cartridges, with short frames, with code in the RAM, and with states in mid-frame
GAMES = ["boxing", "seaquest", "solaris", "montezuma_revenge", "robotank", "up_n_down", "qbert"]


def assert_same(plain: AtariEmulator, fast: AtariEmulator, screen: bool = True) -> None:
    assert (plain.ram() == fast.ram()).all()
    assert (plain.lives, plain.game_over) == (fast.lives, fast.game_over)
    assert not screen or (plain.screen() == fast.screen()).all()


@pytest.mark.parametrize("game", [slow(g) if g in ("seaquest", "robotank", "boxing") else g for g in GAMES])
def test_frames_are_the_same(game: str) -> None:
    plain, fast = (AtariEmulator(game, seed=1, sticky=0.25, fast=fast) for fast in (False, True))
    rng = np.random.default_rng(0)
    for t in range(300):
        action = int(rng.integers(18))
        assert plain.act(action) == fast.act(action), t
        assert_same(plain, fast)
        if t == 150:
            plain.reset()
            fast.reset()


@pytest.mark.parametrize("game", ["boxing", "qbert"])
def test_a_picture_is_drawn_when_it_is_looked_at(game: str) -> None:
    plain, fast = AtariEmulator(game, fast=False), AtariEmulator(game)
    fast._emulator.set_draws(False)
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = int(rng.integers(18))
        plain.act(action)
        fast.act(action)
        assert_same(plain, fast, screen=bool(rng.random() < 0.3))


@pytest.mark.parametrize("game", ["pong", "montezuma_revenge"])
def test_states_go_from_one_to_the_other(game: str) -> None:
    plain, fast = AtariEmulator(game, fast=False), AtariEmulator(game, seed=3)
    fast._emulator.set_draws(False)
    for _ in range(4):
        for _ in range(40):
            fast.act(5)
        plain.restore(fast.save())
        assert_same(plain, fast)
        for _ in range(40):
            plain.act(2)
        fast.restore(plain.save())
        assert_same(plain, fast)


@pytest.mark.parametrize("kind", ["104x80", "104x80-mean", "84x84"])
def test_observations_are_those_of_the_preprocessor(kind: str) -> None:
    """The core's observations equal those of a preprocessor that gets the last two screens of each step.

    The game is road_runner, because its frames have many colours.
    """
    core = make_env_core("road_runner", kind, luminance(210), frame_skip=4, max_steps=10**6, life_loss=False)
    emulator = AtariEmulator("road_runner", fast=False)
    core.restore(emulator.save())
    preprocessor = make_preprocessor(kind, 210)
    frame = np.zeros((1, 84, 84) if kind == "84x84" else (1, 104, 80), np.uint8)
    expected, out = frame[0].copy(), _Out(frame)
    for t in range(100):
        code = t % 18
        step_env_cores([core], np.array([code], np.int32), None, out)  # type: ignore[arg-type]
        rewards = 0
        for number in range(4):
            rewards += emulator.act(code)
            preprocessor.screens[max(0, number - 2)] = emulator.screen()
        preprocessor.both(expected)
        assert rewards == out.reward[0] and (expected == frame[0]).all(), t


class _Out:
    """The arrays into which `step_env_cores` writes the results of one environment."""

    def __init__(self, frame: np.ndarray) -> None:
        self.frame, self.reward = frame, np.zeros(1, np.float32)
        self.terminated, self.truncated, self.ended = (np.zeros(1, bool) for _ in range(3))


RAM_CODE = """
start:  sei
        cld
        ldx #$FF
        txs
frame:  lda #2
{sync}        ldx #{size} - 1
copy:   lda routine,x
        sta ${first:02X},x
        dex
        bpl copy
        {entry} ${first:02X}
        inc $80
        ldx #200
lines:  sta WSYNC
        dex
        bne lines
        jmp frame
routine: .byte {code}
"""
SELF_MODIFYING = [
    0xE6,
    0x93,
    0xA9,
    0x07,
    0x65,
    0x81,
    0x85,
    0x81,
    0xCA,
    0xD0,
    0xFD,
    0x60,
]  # This 6507 program increments the operand of its instruction `lda #7`.
ITS_OWN_OPERAND = [
    0xA2,
    0x96,
    0x9A,
    0x20,
    0x00,
    0xF1,
    0x60,
]  # ldx #$96; txs; jsr $F100: the return address overwrites jsr's operand
TO_THE_END = [0xA2, 0x30, 0xCA, 0xE8, 0x4C, 0xF6, 0x00]


@pytest.mark.parametrize(
    ("first", "entry", "code"),
    [(0x90, "jsr", SELF_MODIFYING), (0x90, "jmp", ITS_OWN_OPERAND), (0xF9, "jmp", TO_THE_END)],
)
def test_code_in_ram_is_decoded_as_it_is_met(first: int, entry: str, code: list[int]) -> None:
    text = RAM_CODE.format(sync=SYNC, size=len(code), first=first, entry=entry, code=", ".join(map(str, code)))
    rom = assemble(text, 4096)
    plain, fast = (AtariEmulator("amidar", rom=rom, fast=fast) for fast in (False, True))
    for _ in range(5):
        plain.act(0)
        fast.act(0)
        assert_same(plain, fast)
        assert plain.ram()[0x10:].any()
