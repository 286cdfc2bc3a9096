"""Agents: games that are played by agent steps in the core, several in one call.

agent = make_agent("pong", "104x80", luminance, frame_skip=4, max_steps=27_000, life_loss=True)
agent.reset()                                # the console; begin(frame) then starts an episode and writes its frame
step_agents([agent], codes, None, out)       # codes [n] int32 of the 18 actions, below 0: left out; out: data.Step
"""

from typing import Any

import numpy as np

from accel_rl.data.step import Step
from accel_rl.emulator.atari import core, rom_path
from accel_rl.emulator.games import cartridge, settings, steps
from accel_rl.system.errors import ConfigError

OBSERVATIONS = ("104x80", "104x80-mean", "84x84")


def make_agent(
    game: str,
    observation: str,
    luminance: np.ndarray,
    frame_skip: int,
    max_steps: int,
    life_loss: bool,
    repeat_probability: float = 0.0,
    mode: int | None = None,
    difficulty: int | None = None,
) -> Any:
    """One game, loaded. luminance: [256] uint8, a colour byte's gray. Raises ConfigError."""
    rows = settings(game)["height"]
    kind = OBSERVATIONS.index(observation)
    if rows != 210 and kind:
        raise ConfigError(f"frame={observation} of {game} with its {rows} rows: use env.backend=ale, or frame=104x80")
    rom = rom_path(game).read_bytes()
    rules = (frame_skip, max_steps, life_loss, repeat_probability, kind, luminance)
    agent = core().AtariEnvCore(rom, cartridge(game), settings(game), *rules)
    if mode is not None:
        agent.set_steps(steps(game, mode))
    if difficulty is not None:
        agent.set_difficulty(difficulty)
    return agent


def step_agents(agents: list[Any], codes: np.ndarray, draws: np.ndarray | None, out: Step) -> None:
    """One step of each. draws [n, frame_skip] float64 in [0, 1): for sticky actions. Writes all but age and valid."""
    core().step_agents(agents, codes, draws, out.frame, out.reward, out.terminated, out.truncated, out.ended)
