"""Checksums of 8 games, which must be equal on all machines. golden_trace.json has the expected checksums.

    python tests/emulator/golden_trace.py            # tests the installed accel_rl; exit code 1 at a difference
    python tests/emulator/golden_trace.py --translated    # the same, but the games are translated and compiled by $CXX
    python tests/emulator/golden_trace.py --write    # after an intended change of the emulator

A game is played frame by frame by the emulator, by `VectorEnv`, and with each kind of observation that worker processes
compute. The program needs only numpy, gymnasium and ale-py's ROMs, so that it also runs under a CPU emulator.
"""

import hashlib
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import accel_rl.emulator
from accel_rl.data.rollout_arrays import Step
from accel_rl.emulator import AtariEmulator, VectorEnv, palette, rom_compiler, translation
from accel_rl.emulator.env_core import OBSERVATIONS, make_env_core, step_env_cores

EXPECTED = Path(__file__).with_suffix(".json")
GAMES = ("breakout", "double_dunk", "montezuma_revenge", "pong", "robotank", "seaquest", "solaris", "up_n_down")
FRAMES, STEPS = 2000, 100


def frames(game: str, digest: "hashlib._Hash", fast: bool, count: int) -> None:
    rng = np.random.default_rng(1)
    emulator = AtariEmulator(game, seed=1, sticky=0.25, fast=fast)
    for _ in range(count):
        if emulator.game_over:
            emulator.reset()
        reward = emulator.act(int(rng.integers(18)))
        digest.update(emulator.ram())
        digest.update(np.ascontiguousarray(emulator.screen()))
        digest.update(np.array([reward, emulator.lives, emulator.game_over], np.int64))


def vector_env(game: str, digest: "hashlib._Hash") -> None:
    envs, rng = VectorEnv(game, 2, num_threads=2, repeat_action_probability=0.25), np.random.default_rng(2)
    obs, _ = envs.reset(seed=2)
    for _ in range(STEPS):
        digest.update(obs)
        obs, *rest, _ = envs.step(rng.integers(envs.single_action_space.n, size=2))
        for array in rest:
            digest.update(np.ascontiguousarray(array))
    envs.close()


def observations(game: str, kind: str, digest: "hashlib._Hash") -> None:
    rng = np.random.default_rng(3)
    core = make_env_core(game, kind, palette.GRAY, frame_skip=4, max_steps=60, life_loss=True)
    height, width = map(int, kind.removesuffix("-mean").split("x"))
    frame, flags = np.zeros((1, height, width), np.uint8), [np.zeros(1, bool) for _ in range(4)]
    reward, age = np.zeros(1, np.float32), np.zeros(1, np.uint8)
    out = Step(frame, frame.copy(), age, reward, *flags)
    core.reset()
    core.begin(out.frame[0])
    for _ in range(STEPS):
        digest.update(out.frame)
        step_env_cores([core], rng.integers(18, size=1).astype(np.int32), None, out)
        for array in (out.reward, out.terminated, out.truncated, out.ended):
            digest.update(array)
        if out.ended[0]:
            core.reset()
            core.begin(out.frame[0])


def checksums(game: str) -> dict[str, str]:
    """Return {way to play the game: first half of the SHA-256 of its results}."""
    parts = {
        "frames": lambda d: frames(game, d, True, FRAMES),
        "frames, plain core": lambda d: frames(game, d, False, FRAMES // 4),
        "VectorEnv": lambda d: vector_env(game, d),
        **{kind: (lambda d, kind=kind: observations(game, kind, d)) for kind in OBSERVATIONS},
    }
    found = {}
    for name, play in parts.items():
        digest = hashlib.sha256()
        play(digest)
        found[name] = digest.hexdigest()[:32]
    return found


def translate(game: str) -> AtariEmulator:
    """Translate a game, and return an emulator: while it exists, all emulators of this process play the translated
    game."""
    emulator = AtariEmulator(game)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rom.so"
        rom_compiler.compile_rom(emulator._emulator, file)
        translation._insert(emulator._emulator, file)
    assert emulator._emulator.is_translated, game
    return emulator


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        EXPECTED.write_text(json.dumps({game: checksums(game) for game in GAMES}, indent=1) + "\n")
        return 0
    start, expected, wrong = time.monotonic(), json.loads(EXPECTED.read_text()), 0
    print(f"{Path(accel_rl.emulator.__file__).parent} on {platform.machine()}")
    for game in GAMES:
        translated = translate(game) if "--translated" in arguments else None
        found = checksums(game)
        different = [name for name, value in found.items() if value != expected[game][name]]
        result = f"differs: {', '.join(different)}" if different else "exact"
        print(f"{game:18} {result}{', translated' if translated else ''}", flush=True)
        wrong += bool(different)
    print(f"{len(GAMES) - wrong} of {len(GAMES)} games exact in {time.monotonic() - start:.0f} s")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
