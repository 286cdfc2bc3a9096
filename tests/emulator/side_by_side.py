"""Our emulator and ale-py play the same actions and resets, up to the first frame in which they differ."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel_rl.emulator import AtariEmulator
from accel_rl.emulator.games import rom_path
from accel_rl.emulator.translation import begin, translate


@dataclass(frozen=True)
class Run:
    """Settings of a traced run.

    The run has `resets` resets in addition to those at the end of each game. With `screens` n, every n-th screen is
    compared.
    """

    game: str
    seed: int = 0
    frames: int = 2000
    policy: str = "random"
    sticky: float = 0.0
    resets: int = 1
    screens: int = 1
    mode: int | None = None
    difficulty: int | None = None
    translated: bool = False


@dataclass
class Outcome:
    """The result of a traced run. `first` maps each differing field to its first difference."""

    game: str
    frames: int = 0
    episodes: int = 1
    first: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def exact(self) -> bool:
        return not self.first and not self.error


def actions(policy: str, minimal: list[int], seed: int) -> Iterator[int]:
    """Yield random actions endlessly. The policies are `random`: the game's minimal actions; `held`: each minimal
    action for 1 to 30 frames; `full`: all 18 actions."""
    rng = np.random.default_rng(seed)
    choices = list(range(18)) if policy == "full" else minimal
    while True:
        action = choices[rng.integers(len(choices))]
        for _ in range(rng.integers(1, 31) if policy == "held" else 1):
            yield action


def reference(run: Run) -> Any:
    """Return ale-py's ALEInterface with the settings of the run."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", run.sticky)
    ale.setInt("random_seed", run.seed)
    ale.loadROM(rom_path(run.game))
    if run.mode is not None:
        ale.setMode(run.mode)
    if run.difficulty is not None:
        ale.setDifficulty(run.difficulty)
    if run.mode is not None or run.difficulty is not None:
        ale.reset_game()
    return ale


class SideBySide:
    """ale-py and our emulator, which get the same actions and resets."""

    def __init__(self, run: Run) -> None:
        self.ale = reference(run)
        self.ours = AtariEmulator(run.game, run.seed, run.sticky, run.mode, run.difficulty)
        if run.translated:
            assert translate(run.game), "the game cannot be translated"
            begin(self.ours._emulator, run.game)
            assert self.ours._emulator.is_translated
        self.actions = actions(run.policy, [a.value for a in self.ale.getMinimalActionSet()], run.seed)
        self.reset_every = run.frames // (run.resets + 1) + 1
        self.frame, self.episodes = 0, 1
        self.rewards = (0, 0)

    def step(self) -> int | None:
        """Play one frame on ale-py and our emulator, or reset both emulators. Returns the action, or None after a
        reset."""
        self.frame += 1
        if self.ale.game_over() or self.frame % self.reset_every == 0:
            self.ale.reset_game()
            self.ours.reset()
            self.episodes += 1
            self.rewards = (0, 0)
            return None
        action = next(self.actions)
        self.rewards = (self.ale.act(action), self.ours.act(action))
        return action

    def differences(self, screen: bool) -> Iterator[tuple[str, str]]:
        """Yield a pair (field, difference) for each field of the current frame that differs. With `screen`, the screens
        are also compared."""
        ale, ours = self.ale, self.ours
        scalars = {
            "reward": self.rewards, "lives": (ale.lives(), ours.lives), "over": (ale.game_over(), ours.game_over)
        }  # fmt: skip
        theirs_ram, our_ram = ale.getRAM(), ours.ram()
        if (theirs_ram != our_ram).any():
            cells = np.nonzero(theirs_ram != our_ram)[0]
            listed = ", ".join(f"{128 + i:#x}: {our_ram[i]:#x} for {theirs_ram[i]:#x}" for i in cells[:4])
            yield "ram", f"{len(cells)} bytes, {listed}"
        yield from ((name, f"{our} for {their}") for name, (their, our) in scalars.items() if our != their)
        if screen:
            theirs, our = ale.getScreen(), ours.screen()
            if theirs.shape != our.shape:
                yield "screen", f"shape {our.shape} for {theirs.shape}"
            elif (theirs != our).any():
                y, x = np.nonzero(theirs != our)
                first = f"({y[0]}, {x[0]}): {our[y[0], x[0]]} for {theirs[y[0], x[0]]}"
                yield "screen", f"{len(y)} pixels, first {first}"


def trace(run: Run) -> Outcome:
    """Play the run on ale-py and our emulator to its end, or until the RAM differs."""
    out, pair = Outcome(run.game), SideBySide(run)
    while True:
        for name, text in pair.differences(pair.frame % run.screens == 0):
            out.first.setdefault(name, f"frame {pair.frame}: {text}")
        if "ram" in out.first or pair.frame == run.frames:
            out.episodes = pair.episodes
            return out
        out.frames += pair.step() is not None


def first_difference(run: Run) -> str:
    """Return the CPU instructions of the first frame that differs in RAM or screen."""
    pair = SideBySide(run)
    while pair.frame < run.frames:
        before = pair.ours.save()
        action = pair.step()
        if (pair.ale.getRAM() == pair.ours.ram()).all() and (pair.ale.getScreen() == pair.ours.screen()).all():
            continue
        if action is None:
            return f"{run}: differs after a reset"
        pair.ours.restore(before)
        lines = [f"{run}: frame {pair.frame}, action {action}"]
        for cycle, line, at, pc, b0, b1, b2, a, x, y, sp in pair.ours.trace(action):
            where = f"{cycle:6} line {line:3} +{at:2}  {pc:04X}  {b0:02X} {b1:02X} {b2:02X}"
            lines.append(f"{where}  A{a:02X} X{x:02X} Y{y:02X} S{sp:02X}")
        return "\n".join(lines)
    return f"{run}: no difference"
