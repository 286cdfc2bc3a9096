"""AtariEmulator: copies, saved and restored states, invalid input, colours."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator
from accel_rl.emulator.games import rom_path
from accel_rl.text.errors import ConfigError


def run(emulator: AtariEmulator, seed: int, frames: int) -> list:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(frames):
        out.append((emulator.act(int(rng.integers(18))), emulator.ram().tobytes(), emulator.screen().tobytes()))
        if emulator.game_over:
            emulator.reset()
    return out


@pytest.mark.parametrize(
    "game", ["seaquest", "qbert", "montezuma_revenge", "robotank", "kaboom", "elevator_action", "air_raid"]
)
def test_a_restored_state_has_the_same_future(game: str) -> None:
    emulator = AtariEmulator(game, seed=5, sticky=0.25)
    run(emulator, 0, 500)
    state = emulator.save()
    future = run(emulator, 1, 300)
    emulator.restore(state)
    assert run(emulator, 1, 300) == future
    other = AtariEmulator(game, seed=99)
    other.restore(state)
    assert run(other, 1, 300) == future


def test_a_state_travels_between_processes(tmp_path) -> None:
    emulator = AtariEmulator("pong", seed=5, sticky=0.25)
    run(emulator, 0, 100)
    (tmp_path / "state").write_bytes(emulator.save())
    code = (
        "import sys; from accel_rl.emulator import AtariEmulator; e = AtariEmulator('pong');"
        f"e.restore(open(r'{tmp_path}/state', 'rb').read());"
        "[e.act(i % 18) for i in range(100)]; sys.stdout.write(e.ram().tobytes().hex())"
    )
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for i in range(100):
        emulator.act(i % 18)
    assert theirs == emulator.ram().tobytes().hex()


def test_bad_states_are_named() -> None:
    emulator = AtariEmulator("pong")
    state = emulator.save()
    for bytes_, words in (
        (b"", "cut off"),
        (b"x" * 100, "no emulator state"),
        (state[:-1], "bytes; expected"),
        (state[:4] + b"\x06" + state[5:], "version 6"),
        (AtariEmulator("boxing").save(), "another ROM"),
        (AtariEmulator("pong", mode=1).save(), "another mode"),
    ):
        with pytest.raises(ValueError, match=words):
            emulator.restore(bytes_)
    assert emulator.save() == state


def test_mutated_states_are_refused_or_run() -> None:
    emulator = AtariEmulator("asterix")
    state = bytearray(emulator.save())
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(state)
        for at in rng.integers(20, 3400, size=4):
            bad[at] = rng.integers(256)
        try:
            emulator.restore(bytes(bad))
        except ValueError:
            continue
        emulator.act(int(rng.integers(18)))


def test_roms_of_any_content_and_size() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 100, 2048):
        emulator = AtariEmulator("boxing", rom=rng.integers(256, size=size, dtype=np.uint8).tobytes())
        emulator.act(0)
    for size in (0, 5000):
        with pytest.raises(ValueError, match="bytes"):
            AtariEmulator("boxing", rom=b"\0" * size)


def test_wrong_names_and_actions() -> None:
    with pytest.raises(ConfigError, match="pong"):
        AtariEmulator("pongg")
    with pytest.raises(ConfigError, match="mode=9"):
        AtariEmulator("pong", mode=9)
    with pytest.raises(ConfigError, match="difficulty=7"):
        AtariEmulator("pong", difficulty=7)
    with pytest.raises(ValueError, match="action 18"):
        AtariEmulator("pong").act(18)


@pytest.mark.parametrize("game", ["enduro", "keystone_kapers", "air_raid"])
def test_colours_equal_the_reference(game: str) -> None:
    import ale_py

    from accel_rl.emulator.games import rom_path

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.loadROM(rom_path(game))
    ours = AtariEmulator(game)
    np.testing.assert_array_equal(ours.rgb(), ale.getScreenRGB())
    np.testing.assert_array_equal(ours.gray(), ale.getScreenGrayscale())


@pytest.mark.parametrize(("game", "mode"), [("pong", 0), ("berzerk", 4), ("double_dunk", 5), ("yars_revenge", 0)])
def test_frames_are_counted_as_by_the_reference(game: str, mode: int) -> None:
    """The emulator counts frames as ale-py does, including the frames in which a reset selects the mode of the game."""
    import ale_py

    reference = ale_py.ALEInterface()
    reference.setFloat("repeat_action_probability", 0.0)
    reference.loadROM(rom_path(game))
    reference.setMode(mode)
    emulator = AtariEmulator(game, mode=mode)
    before = reference.getFrameNumber() - emulator.frame_number  # setMode resets once
    for frames in (0, 7, 40):
        for _ in range(frames):
            reference.act(0)
            emulator.act(0)
        reference.reset_game()
        emulator.reset()
        assert emulator.frame_number + before == reference.getFrameNumber()
        assert emulator.episode_frame_number == reference.getEpisodeFrameNumber()
