"""Trace the emulator against ale-py: RAM, reward, lives, end of the game and screen of every frame.

    python -m benchmarks.emulator_trace --games all57 --seeds 2 --frames 2000
    python -m benchmarks.emulator_trace --games pong,breakout --policy full --sticky 0.25 --resets 3

A game's line says `exact`, or the first frame that differs, in what, and the TIA writes and instructions of that frame
(--verbose).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.emulator import AtariEmulator, games
from accel_rl.emulator.atari import rom_path

FIELDS = ("ram", "reward", "lives", "over", "screen")


@dataclass
class Outcome:
    """What one traced run found; `first` names the first differing frame of each field."""

    game: str
    frames: int = 0
    episodes: int = 1
    first: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def exact(self) -> bool:
        return not self.first and not self.error


def actions(policy: str, minimal: list[int], seed: int) -> Iterator[int]:
    """Endless actions: `random` minimal ones, `held` each for 1 to 30 frames, `full` all 18 at random."""
    rng = np.random.default_rng(seed)
    choices = list(range(18)) if policy == "full" else minimal
    while True:
        action = choices[rng.integers(len(choices))]
        for _ in range(rng.integers(1, 31) if policy == "held" else 1):
            yield action


def reference(game: str, seed: int, sticky: float) -> Any:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", sticky)
    ale.setInt("random_seed", seed)
    ale.loadROM(rom_path(game))
    return ale


def _differences(ale: Any, ours: AtariEmulator, rewards: tuple[int, int], screen: bool) -> Iterator[tuple[str, str]]:
    theirs_ram, our_ram = ale.getRAM(), ours.ram()
    if (theirs_ram != our_ram).any():
        at = np.nonzero(theirs_ram != our_ram)[0]
        shown = ", ".join(f"{128 + i:#x}: {our_ram[i]:#x} for {theirs_ram[i]:#x}" for i in at[:4])
        yield "ram", f"{len(at)} bytes, {shown}"
    if rewards[0] != rewards[1]:
        yield "reward", f"{rewards[1]} for {rewards[0]}"
    if ale.lives() != ours.lives:
        yield "lives", f"{ours.lives} for {ale.lives()}"
    if ale.game_over() != ours.game_over:
        yield "over", f"{ours.game_over} for {ale.game_over()}"
    if screen:
        theirs, our = ale.getScreen(), ours.screen()
        if theirs.shape != our.shape:
            yield "screen", f"shape {our.shape} for {theirs.shape}"
        elif (theirs != our).any():
            y, x = np.nonzero(theirs != our)
            yield (
                "screen",
                f"{len(y)} pixels, first ({y[0]}, {x[0]}): {our[y[0], x[0]]} for {theirs[y[0], x[0]]}",
            )


def trace(
    game: str,
    seed: int,
    frames: int,
    policy: str = "random",
    sticky: float = 0.0,
    resets: int = 1,
    screens: int = 1,
) -> Outcome:
    """Runs both side by side; stops at a difference in RAM, after which nothing would agree."""
    out = Outcome(game)
    ale, ours = reference(game, seed, sticky), AtariEmulator(game, seed=seed, sticky=sticky)
    policy_actions = actions(policy, [a.value for a in ale.getMinimalActionSet()], seed)
    reset_every = frames // (resets + 1) + 1
    rewards = (0, 0)
    for frame in range(frames + 1):
        for what, text in _differences(ale, ours, rewards, frame % screens == 0):
            out.first.setdefault(what, f"frame {frame}: {text}")
        if "ram" in out.first or frame == frames:
            break
        if ale.game_over() or (frame + 1) % reset_every == 0:
            ale.reset_game()
            ours.reset()
            out.episodes += 1
            rewards = (0, 0)
            continue
        action = next(policy_actions)
        rewards = (ale.act(action), ours.act(action))
        out.frames += 1
    return out


def first_difference(game: str, seed: int, frames: int, policy: str, sticky: float, resets: int) -> str:
    """The instructions of the first frame that differs in RAM or screen, around its TIA writes."""
    ale, ours = reference(game, seed, sticky), AtariEmulator(game, seed=seed, sticky=sticky)
    policy_actions = actions(policy, [a.value for a in ale.getMinimalActionSet()], seed)
    reset_every = frames // (resets + 1) + 1
    for frame in range(frames):
        if ale.game_over() or (frame + 1) % reset_every == 0:
            ale.reset_game()
            ours.reset()
            continue
        action = next(policy_actions)
        before = ours.save()
        ale.act(action)
        ours.act(action)
        if (ale.getRAM() != ours.ram()).any() or (ale.getScreen() != ours.screen()).any():
            ours.restore(before)
            lines = [f"{game}: frame {frame}, action {action}"]
            for cycle, line, at, pc, b0, b1, b2, a, x, y, sp in ours.trace(action):
                lines.append(
                    f"{cycle:6} line {line:3} +{at:2}  {pc:04X}  {b0:02X} {b1:02X} {b2:02X}  A{a:02X} X{x:02X} Y{y:02X} S{sp:02X}"  # noqa: E501
                )
            return "\n".join(lines)
    return f"{game}: no difference"


def chosen(text: str) -> list[str]:
    known = list(games())
    if text in ("all57", "all"):
        return known[:57] if text == "all57" else known
    return text.split(",")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="all57", help="all57, all, or names with commas")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--policy", default="random", choices=["random", "held", "full", "all"])
    parser.add_argument("--sticky", type=float, default=0.0)
    parser.add_argument("--resets", type=int, default=1, help="resets besides those at an end of the game")
    parser.add_argument("--verbose", action="store_true", help="print the first differing frame's instructions")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    policies = ["random", "held", "full"] if args.policy == "all" else [args.policy]
    table, start = {}, time.monotonic()
    for game in chosen(args.games):
        runs = []
        for policy in policies:
            for seed in range(args.seeds):
                try:
                    runs.append(trace(game, seed, args.frames, policy, args.sticky, args.resets))
                except Exception as error:
                    runs.append(Outcome(game, error=f"{type(error).__name__}: {error}"))
        first = {what: text for run in reversed(runs) for what, text in run.first.items()}
        error = next((run.error for run in runs if run.error), "")
        frames, episodes = sum(r.frames for r in runs), sum(r.episodes for r in runs)
        table[game] = {"exact": not first and not error, "frames": frames, "episodes": episodes, **first}
        verdict = error or "; ".join(f"{what} {text}" for what, text in first.items()) or "exact"
        print(f"{game:18} {frames:7} frames {episodes:4} episodes  {verdict}", flush=True)
        if args.verbose and ("ram" in first or "screen" in first):
            print(first_difference(game, 0, args.frames, policies[0], args.sticky, args.resets))
    exact = sum(row["exact"] for row in table.values())
    print(f"{exact} of {len(table)} games exact in everything, {time.monotonic() - start:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))
    return 0 if exact == len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
