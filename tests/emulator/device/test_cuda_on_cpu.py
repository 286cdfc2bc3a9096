"""The unchanged GPU kernels, compiled by g++ (cuda_on_cpu.cpp), play exactly as their simpler CPU build."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.device.block_kernel import blocks_of
from accel_rl.emulator.games import cartridge, rom_path
from accel_rl.envs.atari_games import ATARI_57

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
pytestmark = [
    pytest.mark.skipif(not shutil.which("g++"), reason="no g++"),
    pytest.mark.skipif(sys.platform != "linux", reason="libcuda.so.1 is of Linux"),
]
NEEDS_CUDA_BINDINGS = pytest.mark.needs("cuda.bindings.driver")

# Maps each case to the arguments of on_libcuda.compare, and to the count of `Found` that must not be 0.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one environment": ({"game": "pong", "n": 1, "steps": 3, "frame": "104x80-mean", "max_episode_steps": 2}, "ended"),
    "two warps": (
        {"game": "asterix", "n": 33, "steps": 3, "repeat_action_probability": 0.25, "max_episode_steps": 2}, "ended",
    ),
    "lost lives": (
        {"game": "breakout", "n": 33, "steps": 2, "frame": "84x84", "life_loss_ends_return": True, "played_before": 26},
        "lost",
    ),
    "the plain core": ({"game": "qbert", "n": 33, "steps": 1, "noop_max": 0, "frame_skip": 2}, "finished"),
    "300 environments": ({"game": "seaquest", "n": 300, "steps": 1, "frame": "84x84"}, "skipped"),
}  # fmt: skip


def compiled(program: Path, *flags: str, folder: Path = HERE) -> Path:
    command = ["g++", "-std=c++17", "-O1", "-ffp-contract=off", *flags, "-o", str(program)]
    subprocess.run(command, cwd=folder, check=True)
    return program


def libcuda(folder: Path, sources: Path = HERE, translated: str = "") -> Path:
    """Compile libcuda.cpp to libcuda.so.1, with the own kernel of the game `translated`, and return the library's
    folder."""
    # Without -Bsymbolic, calls of the kernel `step` would reach glibc's function `step`.
    flags = ["-shared", "-fPIC", "-pthread", "-Wl,-Bsymbolic", "libcuda.cpp", "cuda_on_cpu.cpp"]
    if translated:
        text = folder / "blocks.inc"
        text.write_text(blocks_of(translated).text)
        flags += ["-O0", "-w", f'-DBLOCKS="{text}"']
    compiled(folder / "libcuda.so.1", *flags, folder=sources)
    return folder


def played(folder: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-m", "tests.emulator.device.on_libcuda", json.dumps(cases)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def copied(folder: Path) -> Path:
    """Copy the emulator's C++ sources and tests/emulator to `folder`, and return the copy of tests/emulator/device."""
    shutil.copytree(
        ROOT / "accel_rl/emulator", folder / "accel_rl/emulator", ignore=shutil.ignore_patterns("*.so", "*.py")
    )
    shutil.copytree(HERE.parent, folder / HERE.parent.relative_to(ROOT))
    return folder / HERE.relative_to(ROOT)


def plant(folder: Path, file: str, old: str, new: str) -> None:
    """Replace `old` by `new` in a file of the copied sources."""
    changed = folder / "accel_rl/emulator" / file
    text = changed.read_text()
    assert text.count(old) == 1, f"{file} has no single {old}"
    changed.write_text(text.replace(old, new))


def planted(folder: Path, file: str, old: str, new: str) -> Path:
    """Copy the sources, replace `old` by `new` in one file, and return the copy of tests/emulator/device."""
    sources = copied(folder)
    plant(folder, file, old, new)
    return sources


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    pytest.importorskip("cuda.bindings.driver")
    folder = libcuda(tmp_path_factory.mktemp("libcuda"))
    return dict(zip(CASES, played(folder, [case for case, _ in CASES.values()]), strict=True))


@NEEDS_CUDA_BINDINGS
@pytest.mark.slow  # g++ takes 15 s to compile the kernels.
@pytest.mark.parametrize("case", CASES)
def test_kernels_equal_their_host_build(found: dict[str, dict[str, Any]], case: str) -> None:
    assert not found[case]["differs"]
    assert found[case][CASES[case][1]] > 0


@NEEDS_CUDA_BINDINGS
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_games_equal_their_host_build(tmp_path: Path) -> None:
    sticky = {"n": 21, "steps": 3, "repeat_action_probability": 0.25, "max_episode_steps": 22, "played_before": 20}
    cases = [{"game": game, "frame": frame, **sticky} for game in ATARI_57 for frame in ("84x84", "104x80")]
    found = played(libcuda(tmp_path), cases)
    assert not [(case["game"], one["differs"]) for case, one in zip(cases, found, strict=True) if one["differs"]]
    assert all(one["ended"] for one in found)


@NEEDS_CUDA_BINDINGS
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("game", ATARI_57)
def test_translated_games_equal_the_host_build(tmp_path: Path, game: str) -> None:
    """A game's own kernel plays exactly as its CPU build, with 9 environments in warps of at most 5, and with
    61 environments in warps of at most 31.

    Some lanes of a warp have no environment, skip a step, or end an episode.
    """
    sticky = {"steps": 3, "repeat_action_probability": 0.25, "max_episode_steps": 20, "played_before": 20}
    cases = [{"game": game, "n": n, "frame": "84x84", "translated": True, **sticky} for n in (9, 61)]
    for one in played(libcuda(tmp_path, translated=game), cases):
        assert not one["differs"]
        assert one["translated"] == 3 and one["ended"] and one["skipped"]


@NEEDS_CUDA_BINDINGS
@pytest.mark.slow
def test_a_difference_is_found(tmp_path: Path) -> None:
    """A planted fault in code that is compiled only for a GPU is found: rows are painted from the records of other
    rows."""
    sources = planted(tmp_path, "device/kernels/rows.h", "31 - u32(__clz(int(bits)))", "u32(__ffs(int(bits)) - 1)")
    (found,) = played(libcuda(tmp_path, sources), [CASES["one environment"][0]])
    assert "step 0: frame" in found["differs"]


@NEEDS_CUDA_BINDINGS
@pytest.mark.slow
def test_a_difference_of_a_translated_game_is_found(tmp_path: Path) -> None:
    """A planted fault in code that is compiled only for a GPU is found: all lanes run the block that one lane has
    reached."""
    sources = planted(tmp_path, "device/kernels/blocks.cu", "if (goes && cpu.block == now)", "if (goes)")
    case = {"game": "breakout", "n": 33, "steps": 2, "translated": True, "played_before": 3}
    (found,) = played(libcuda(tmp_path, sources, "breakout"), [case])
    assert "step 4: state" in found["differs"]


def run(program: Path, game: str, envs: int, steps: int) -> "subprocess.CompletedProcess[str]":
    # On some Linux kernels, ThreadSanitizer does not start with address-space randomization.
    command = ["setarch", "--addr-no-randomize", program, cartridge(game), rom_path(game), envs, steps]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_are_clean(tmp_path: Path) -> None:
    """Sanitizers find no access outside arrays and shared memory, and no undefined behaviour, in the GPU kernels on a
    CPU."""
    flags = ["-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = compiled(tmp_path / "kernels", *flags, "sanitized_kernels.cpp", "cuda_on_cpu.cpp")
    for game in ("breakout", "asterix", "montezuma_revenge"):
        done = run(program, game, 33, 6)
        assert done.returncode == 0, done.stderr[-4000:]


def threads(program: Path, sources: Path = HERE) -> Path:
    flags = ["-g", "-pthread", "-DCUDA_THREADS", "-fsanitize=thread", "sanitized_kernels.cpp", "cuda_on_cpu.cpp"]
    return compiled(program, *flags, folder=sources)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_have_no_races(tmp_path: Path) -> None:
    program = threads(tmp_path / "kernels")
    for game in ("breakout", "seaquest", "montezuma_revenge"):
        done = run(program, game, 3, 3)
        assert done.returncode == 0 and "data race" not in done.stderr, done.stderr[-4000:]


RACES = {
    "two threads paint one row": ("device/kernels/draw.h", "band + at * ROW_WORDS", "band + at / 2 * ROW_WORDS"),
    "no barrier before areas": ("device/kernels/draw.h", "    block.meet();\n    for (u32", "    for (u32"),
    "no barrier after a band is read": ("device/kernels/draw.h", "block.meet();\n        first = end;", "first = end;"),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("race", RACES)
def test_a_race_is_found(tmp_path: Path, race: str) -> None:
    program = threads(tmp_path / "kernels", planted(tmp_path, *RACES[race]))
    done = run(program, "breakout", 3, 2)
    assert done.returncode and "data race" in done.stderr, done.stderr[-4000:]
