"""The GPU kernels, compiled for the CPU with sanitizers, play whole games, mutated cartridges and mutated states
(fuzz.cpp)."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("ale_py")

from accel_rl.emulator import games
from accel_rl.emulator.games import cartridge, rom_path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not shutil.which("g++"), reason="no g++"),
]
GAMES = list(games())[:57]


@pytest.fixture(scope="session")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("fuzz") / "fuzz"
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["g++", *flags, str(Path(__file__).parent / "fuzz.cpp"), "-o", str(program)], check=True)
    return str(program)


def clean(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}"


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_clean(fuzz: str, game: str) -> None:
    clean(fuzz, "run", cartridge(game), rom_path(game), 40)


def test_mutated_cartridges(fuzz: str) -> None:
    clean(fuzz, "roms", 10_000, 1, *[rom_path(game) for game in GAMES])


@pytest.mark.parametrize("game", ["pong", "asterix", "montezuma_revenge", "robotank", "solaris"])
def test_mutated_states(fuzz: str, game: str) -> None:
    clean(fuzz, "states", 10_000, 1, cartridge(game), rom_path(game))
