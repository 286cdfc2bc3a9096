"""Compares the GPU kernels, compiled for the CPU, with the environments of the emulator's C++ core, step by step.

    compare("pong", seeds=range(5), frames=4000, sticky=0.25, observation="84x84") -> Report

Each seed is one environment of a warp. The policies of the environments are, in turn: random actions of the game,
random actions that are held for about ten steps, random actions of the full set of 18. The random numbers of
core/philox.h are computed again in Python. The console, the game's progress and all outputs are compared after every
step.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.emulator.atari import core
from accel_rl.emulator.device.step_arguments import EnvArrays, GameTables, Rules, Starts, StepArguments, StepOutputs
from accel_rl.emulator.env_core import OBSERVATIONS, AtariEnvCore, make_env_core, step_env_cores
from accel_rl.emulator.games import cartridge, games, rom_path, settings
from accel_rl.envs.colors import luminance

POLICIES = ("random", "held", "all")
CARTRIDGE_BYTES = (2048, 4096, 8192, 16384, 8192, 16384, 8192, 8192, 10240)  # by kind
SHAPES = {"104x80": (104, 80), "104x80-mean": (104, 80), "84x84": (84, 84)}
FRAME_SKIP, OLDEST = 4, 3
N_BYTE, Z_BYTE = 134, 135  # of a Play
ALL_FAST, PLAIN, UNKNOWN_PICTURE = range(3)  # the kernels' codes


def philox(key: np.ndarray, counter: Sequence[np.ndarray | int]) -> list[np.ndarray]:
    """Philox4x32-10: key [n] and the four words of the counter -> four words [n], all uint64 below 2^32."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.broadcast_to(np.asarray(word, np.uint64), key.shape) for word in counter]
    first, second = key.astype(np.uint64), np.zeros_like(key, np.uint64)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ first, b & low, (a >> np.uint64(32)) ^ c[3] ^ second, a & low]
        first, second = (first + np.uint64(0x9E3779B9)) & low, (second + np.uint64(0xBB67AE85)) & low
    return c


class HostEnvs:
    """Environments of a game in the GPU kernels, which are compiled for the CPU."""

    def __init__(
        self, game: str, seeds: Sequence[int], observation: str, sticky: float, max_steps: int, life_loss: bool
    ) -> None:
        self.kernels = core().device
        self.n, self.observation = len(seeds), observation
        self.sizes = self.kernels.sizes
        self.codes = np.arange(18, dtype=np.int32)
        self.action = np.zeros(self.n, np.int64)
        shape = (self.n, *SHAPES[observation])
        flags = {name: np.zeros(self.n, bool) for name in ("terminated", "truncated", "ended", "valid")}
        frames = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self.out = Step(*frames, np.zeros(self.n, np.uint8), np.zeros(self.n, np.float32), **flags)
        self.words = np.zeros((self.sizes["env"] // 4, self.n), np.uint32)
        # The words of an environment: its struct Play, three numbers of its episode, and its seed.
        self.words[self.sizes["play"] // 4 + 3] = seeds
        self.code = np.zeros(self.n, np.uint8)
        self._keeps = self._arrays(game)
        self.arguments = self._arguments(game, sticky, max_steps, life_loss)

    def _arrays(self, game: str) -> dict[str, np.ndarray]:
        kind = cartridge(game)
        rom = rom_path(game).read_bytes()
        rom = (rom * 16)[: CARTRIDGE_BYTES[kind]].ljust(CARTRIDGE_BYTES[kind], b"\0")
        rows = settings(game)["height"]
        self.rom_bytes = len(rom)
        data = {
            "game": core().game_tables(settings(game)),
            "rom": rom + bytes(4),
            "code": self.kernels.program_code(rom, kind) + bytes(4),
            "stages": self.kernels.stages(),
        }
        return {
            **{name: np.frombuffer(content, np.uint8) for name, content in data.items()},
            "luminance": luminance(rows),
            "shots": np.zeros((2, self.sizes["shot"] // 4, self.n), np.uint32),
            "logs": np.zeros((self.n, 2, self.sizes["logged"]), np.uint32),
            "rows": np.zeros((self.n, 2, rows + self.sizes["recorded"], self.sizes["row"] // 4), np.uint32),
            "shown": np.zeros(self.n, np.uint8),
        }

    def _arguments(self, game: str, sticky: float, max_steps: int, life_loss: bool) -> StepArguments:
        at = {name: array.ctypes.data for name, array in self._keeps.items()}
        tables = GameTables(
            *(at[name] for name in ("game", "rom", "code", "stages", "luminance")),
            self.rom_bytes,
            cartridge(game),
        )
        outputs = [getattr(self.out, name).ctypes.data for name, _ in StepOutputs._fields_]
        return StepArguments(
            EnvArrays(
                self.n,
                self.words.ctypes.data,
                *(at[name] for name in ("shots", "logs", "rows", "shown")),
                self.code.ctypes.data,
            ),
            tables,
            Rules(FRAME_SKIP, max_steps, life_loss, sticky, OBSERVATIONS.index(self.observation)),
            Starts(),
            self.action.ctypes.data,
            self.codes.ctypes.data,
            StepOutputs(*outputs),
            OLDEST,
        )

    def set_starts(self, plays: Sequence[bytes], frames: np.ndarray, timers: int, noops: int) -> None:
        """Set the table of the states in which episodes start: a state for each pair of a timer value and a number of
        no-ops."""
        states = np.stack([np.frombuffer(play.ljust(self.sizes["env"], b"\0"), np.uint32) for play in plays])
        self._keeps |= {"starts": states, "start_frames": frames}
        self.arguments.starts = Starts(states.ctypes.data, frames.ctypes.data, 0, timers, noops)

    def begin(self, everywhere: bool) -> None:
        self.kernels.begin(bytes(self.arguments), everywhere)

    def step(self, actions: np.ndarray, draws: bool = True) -> tuple[int, int, int]:
        """Step all environments by the kernel `step`, without resets by the kernel `begin`.

        Returns the sums of the iterations of warps, of the iterations of lanes, and of the warps' iterations in which a
        lane runs the plain interpreter.
        """
        self.action[:] = actions
        iterations: tuple[int, int, int] = self.kernels.step(bytes(self.arguments))
        if draws:
            self.kernels.draw(bytes(self.arguments))
        self.kernels.finish(bytes(self.arguments))
        return iterations

    def play(self, i: int) -> bytes:
        """Return environment i's Play, the state of its console and game, as bytes."""
        return self.words[: self.sizes["play"] // 4, i].tobytes()


def comparable(play: bytes) -> bytearray:
    """Return the bytes of a Play with canonical flags N and Z, which the kernels and the core store differently."""
    result = bytearray(play)
    result[N_BYTE] &= 0x80
    result[Z_BYTE] = result[Z_BYTE] != 0
    return result


@dataclass
class Report:
    game: str
    frames: int = 0
    episodes: int = 0
    plain_steps: int = 0  # agent steps that the emulator's plain core played
    unknown_pictures: int = 0
    warp_iterations: int = 0
    lane_iterations: int = 0
    seconds: float = 0
    mismatches: list[str] = field(default_factory=list)


@dataclass
class Comparison:
    """The same environments in the kernels (`envs`) and in the C++ core (`cores`), with their policies and random
    numbers."""

    envs: HostEnvs
    cores: list[AtariEnvCore]
    saved: list[bytes]  # start states
    seeds: np.ndarray
    timers: int
    noops: int
    minimal: list[int]
    policies: list[str]
    sticky: float
    report: Report

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(int(self.seeds[0]))
        n = len(self.seeds)
        self.number, self.steps, self.age = (np.zeros(n, np.int64) for _ in range(3))
        self.held = np.zeros(n, np.int32)
        shape = self.envs.out.frame.shape
        flags = {name: np.zeros(n, bool) for name in ("terminated", "truncated", "ended", "valid")}
        frames = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self.out = Step(*frames, np.zeros(n, np.uint8), np.zeros(n, np.float32), **flags)

    def actions(self) -> np.ndarray:
        chosen = np.zeros(len(self.seeds), np.int32)
        for i, policy in enumerate(self.policies):
            if policy == "all":
                chosen[i] = self.rng.integers(18)
            elif policy == "random" or self.rng.random() < 0.1:
                chosen[i] = self.held[i] = self.rng.choice(self.minimal)
            else:
                chosen[i] = self.held[i]
        chosen[self.rng.random(len(chosen)) < 0.002] = -1  # skipped
        return chosen

    def draws(self) -> np.ndarray:
        """Return the next random numbers [n, frame_skip] of core/philox.h for sticky actions, in [0, 1)."""
        words = philox(
            self.seeds.astype(np.uint64), (self.steps.astype(np.uint64), self.number.astype(np.uint64), 1, 0)
        )
        return np.stack(words, axis=1) / 2.0**32

    def begin(self, i: int) -> None:
        """Begin the episode of environment i in the C++ core."""
        one = self.seeds[i : i + 1].astype(np.uint64)
        timer, noops = (int(word[0]) for word in philox(one, (0, int(self.number[i]), 0, 0))[:2])
        start = (timer * self.timers >> 32) * self.noops + (noops * self.noops >> 32)
        self.cores[i].restore(self.saved[start])
        self.cores[i].begin(self.out.frame[i])
        self.steps[i] = self.age[i] = self.out.age[i] = 0

    def check(self, i: int, when: str, names: Sequence[str]) -> None:
        for name in names:
            mine, other = getattr(self.envs.out, name)[i], getattr(self.out, name)[i]
            if (mine != other).any():
                what = f"{int((mine != other).sum())} pixels" if mine.ndim else f"{mine} instead of {other}"
                self.report.mismatches.append(f"{when}: {name}: {what}")
        mine, other = comparable(self.envs.play(i)), comparable(self.cores[i].play())
        if mine != other:
            different = [at for at in range(len(mine)) if mine[at] != other[at]]
            self.report.mismatches.append(f"{when}: bytes {different[:8]} of the state")

    def step(self, t: int) -> None:
        chosen = self.actions()
        step_env_cores(self.cores, chosen, self.draws() if self.sticky else None, self.out)
        plays = chosen >= 0
        self.out.valid[:] = plays
        self.age = np.where(plays, np.minimum(self.age + 1, OLDEST), 0)
        self.out.age[:] = self.age
        self.steps += plays
        warps, lanes, _ = self.envs.step(chosen)
        self.report.warp_iterations += warps
        self.report.lane_iterations += lanes
        self.report.frames += FRAME_SKIP * int(plays.sum())
        self.report.plain_steps += int((self.envs.code == PLAIN).sum())
        ended = self.out.ended.copy()
        for i in range(len(self.cores)):
            names = ["age", "reward", "terminated", "truncated", "ended", "valid"]
            if self.envs.code[i] == UNKNOWN_PICTURE:
                self.report.unknown_pictures += 1
            elif ended[i]:
                self.out.final_frame[i] = self.out.frame[i]
                names.append("final_frame")
            else:
                names.append("frame")
            self.check(i, f"seed {self.seeds[i]}, step {t}", names)
        if not ended.any():
            return
        self.envs.begin(False)
        for i in np.flatnonzero(ended):
            self.number[i] += 1
            self.begin(i)
            self.check(i, f"seed {self.seeds[i]}, the start after step {t}", ["frame", "age"])
        self.report.episodes += int(ended.sum())


def make_starts(
    core: AtariEnvCore, observation: str, timers: int, noops: int
) -> tuple[list[bytes], list[bytes], np.ndarray]:
    """Return the start states three times: as saved states of the core, as bytes of Play, and as frames."""
    saved, plays = [], []
    frames = np.zeros((timers * noops, *SHAPES[observation]), np.uint8)
    for timer in range(timers):
        core.restart(25 + timer)
        for noop in range(noops):
            if noop:
                core.act(0)
            core.begin(frames[len(saved)])
            saved.append(core.save())
            plays.append(core.play())
    return saved, plays, frames


def compare(
    game: str,
    seeds: Sequence[int] = range(5),
    frames: int = 4000,
    policies: Sequence[str] = POLICIES,
    sticky: float = 0.25,
    observation: str = "84x84",
    timers: int = 3,
    noops: int = 4,
    stop_at: int = 20,
) -> Report:
    """Play `frames` frames with each seed in the kernels and in the core, or until `stop_at` differences were found."""
    begun, report = time.perf_counter(), Report(game)
    rules = {"max_steps": 5 * frames // (FRAME_SKIP * 12), "life_loss": True}
    envs = HostEnvs(game, list(seeds), observation, sticky, **rules)
    rows = settings(game)["height"]
    cores = [
        make_env_core(game, observation, luminance(rows), FRAME_SKIP, repeat_probability=sticky, **rules) for _ in seeds
    ]
    saved, plays, start_frames = make_starts(cores[0], observation, timers, noops)
    envs.set_starts(plays, start_frames, timers, noops)
    both = Comparison(
        envs,
        cores,
        saved,
        np.array(list(seeds)),
        timers,
        noops,
        games()[game]["actions"],
        [policies[i % len(policies)] for i in range(len(cores))],
        sticky,
        report,
    )
    envs.begin(True)
    for i in range(len(cores)):
        both.begin(i)
        both.check(i, f"seed {both.seeds[i]}, the first start", ["frame", "age"])
    for t in range(frames // FRAME_SKIP):
        both.step(t)
        if len(report.mismatches) >= stop_at:
            break
    report.seconds = time.perf_counter() - begun
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", default="all57")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=4000)
    wanted = parser.parse_args()
    names = list(games())[:57] if wanted.games == "all57" else wanted.games.split(",")
    failed = 0
    for game in names:
        for sticky, observation in ((0.0, "104x80"), (0.25, "84x84")):
            r = compare(game, range(wanted.seeds), wanted.frames, sticky=sticky, observation=observation)
            print(
                f"{game} {sticky} {observation}: {r.frames} frames, {r.episodes} episodes, "
                f"{r.plain_steps} steps by the plain core, {r.unknown_pictures} unknown pictures, "
                f"{len(r.mismatches)} mismatches, {r.seconds:.1f} s",
                *r.mismatches[:5],
                sep="\n    ",
                flush=True,
            )
            failed += bool(r.mismatches)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
