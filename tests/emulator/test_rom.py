"""The emulator finds the ROM files of ale-py, and also plays a user's ROM files."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.games import games, read_rom, rom_path
from accel_rl.text import notes
from accel_rl.text.errors import ConfigError


def test_checksums_are_those_of_the_installed_roms(recwarn: pytest.WarningsRecorder) -> None:
    for game in games():
        assert read_rom(game) == rom_path(game).read_bytes()
    assert not recwarn


def test_another_rom_of_ale_py_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "pong.bin"
    other.write_bytes(rom_path("pong").read_bytes()[:-1] + b"\0")
    monkeypatch.setattr(sys.modules["accel_rl.emulator.games"], "rom_path", lambda game: other)
    monkeypatch.setattr(notes, "_said", set())
    with pytest.warns(UserWarning, match="ale-py's ROM of pong is not that") as said:
        assert read_rom("pong") == read_rom("pong") == other.read_bytes()
    assert len(said) == 1


def test_a_users_rom_is_played(tmp_path: Path) -> None:
    """A user's ROM is played: Breakout with one changed byte, which changes some pixels."""
    rom = bytearray(rom_path("breakout").read_bytes())
    same, variant = tmp_path / "same.bin", tmp_path / "variant.bin"
    same.write_bytes(rom)
    rom[0x730] ^= 0x70
    variant.write_bytes(rom)

    def played(**options: object) -> np.ndarray:
        envs = VectorEnv("breakout", 1, obs_type="rgb", **options)
        envs.reset(seed=1)
        frames = np.array([envs.step(np.array([t % 4]))[0] for t in range(30)])
        envs.close()
        return frames

    np.testing.assert_array_equal(played(rom=same), played())
    other = played(rom=str(variant))
    assert 0 < (other != played()).any(-1).mean() < 0.05


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "has 0 bytes: must have 2,048"),
        (b"abc", "as the ROM of pong"),
    ],
)
def test_bad_roms_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "own.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        VectorEnv("pong", 2, rom=path)
