"""Atari protocols: sets of rules under which scores are measured. Every run records its protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from accel_rl.text.errors import ConfigError, nearest

FRAMES = {"104x80": (104, 80), "104x80-mean": (104, 80), "84x84": (84, 84)}
FIRE_RESETS = ("none", "frame", "steps")
FIRE = 1  # Number of the action FIRE among the 18 joystick actions


def _check_int(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r}: must be a whole number from {low:,} to {high:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A set of rules for playing Atari games. Raises ConfigError for a value out of its range. In an agent step, the
    same action is played for `frame_skip` frames (60 frames per second)."""

    name: str
    frame_skip: int = 4  # Number of emulated frames per action, 1-60 (Mnih et al. 2015, Methods)
    repeat_action_probability: float = 0.0  # The probability, 0 to 1, that a frame repeats the last frame's action
    noop_min: int = 0  # A reset is followed by a random number of no-op frames: noop_min to noop_max (0-1000).
    noop_max: int = 30
    fire_reset: str = "none"  # none, frame or steps: see `presses`
    life_loss_ends_return: bool = True  # If true, a lost life ends the return in training.
    max_episode_steps: int = 27_000  # An episode is truncated after `max_episode_steps` agent steps in training.
    max_evaluation_steps: int = 27_000  # An evaluation episode is truncated after `max_evaluation_steps` agent steps.
    full_action_set: bool = False  # If true, the agent has all 18 joystick actions.
    frame: str = "104x80"  # one of FRAMES
    stack: int = 4  # The number of stacked frames in an observation, 1-32
    mode: int | None = None  # The mode None means the game's default.
    difficulty: int | None = None  # The difficulty None means the game's default.

    def __post_init__(self) -> None:
        _check_int("frame_skip", self.frame_skip, 1, 60)
        _check_int("noop_max", self.noop_max, 0, 1000)
        _check_int("noop_min", self.noop_min, 0, self.noop_max)
        _check_int("max_episode_steps", self.max_episode_steps, 1, 10**9)
        _check_int("max_evaluation_steps", self.max_evaluation_steps, 1, 10**9)
        _check_int("stack", self.stack, 1, 32)
        for field in ("life_loss_ends_return", "full_action_set"):
            if not isinstance(getattr(self, field), bool):
                raise ConfigError(f"{field}={getattr(self, field)!r}: must be true or false")
        p = self.repeat_action_probability
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
            raise ConfigError(f"repeat_action_probability={p!r}: must be a number from 0 to 1")
        for field, allowed in (("frame", FRAMES), ("fire_reset", FIRE_RESETS)):
            value = getattr(self, field)
            if value not in allowed:
                raise ConfigError(
                    f"{field}={value!r} is unknown: must be one of {', '.join(allowed)}" + nearest(str(value), allowed)
                )
        for field in ("mode", "difficulty"):
            if getattr(self, field) is not None:
                _check_int(field, getattr(self, field), 0, 255)

    def for_evaluation(self) -> "Protocol":
        """The rules under which scores are reported: a lost life does not end the return, and the time limit of
        evaluations applies."""
        return replace(self, life_loss_ends_return=False, max_episode_steps=self.max_evaluation_steps)

    def presses(self, codes: Sequence[int], after_life: bool) -> list[tuple[int, int]]:
        """Return pairs (joystick action, number of frames) that are played automatically after a reset or, with
        `after_life`, after a lost life. `codes` are the joystick actions that the agent can select.

        With --env.fire-reset frame, FIRE is pressed for one frame after a reset (EnvPool). With --env.fire-reset steps,
        FIRE and the third action are played for one agent step each after a reset, as by the wrapper FireReset of
        OpenAI baselines. After a lost life that ends the return, a no-op, FIRE and the third action are played, as by
        the wrapper EpisodicLife. In a game without FIRE, FIRE and the third action are omitted. The agent gets no
        reward for points in automatically played frames. Points in the frames after a lost life count in the episode's
        score (`FORCED`).
        """
        fires = self.fire_reset != "none" and len(codes) > 2 and codes[1] == FIRE
        if self.fire_reset == "frame":
            return [(FIRE, 1)] if fires and not after_life else []
        noop = [(0, self.frame_skip)] if self.fire_reset == "steps" and after_life else []
        return noop + ([(FIRE, self.frame_skip), (codes[2], self.frame_skip)] if fires else [])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


PROTOCOLS = {
    p.name: p
    for p in (
        # Stooke & Abbeel 2018, arXiv:1803.02811, section 5.
        # Screens are reduced to 104x80; all other rules are those of Mnih et al. 2015.
        Protocol(name="stooke2018"),
        # Mnih et al. 2015, Nature 518, Methods and Extended Data Table 1.
        # Four frames of 84x84 are stacked, and an evaluation episode lasts at most 5 minutes.
        # Mnih et al. state no time limit for training; later papers use 27,000 steps (30 minutes).
        Protocol(name="mnih2015", frame="84x84", max_evaluation_steps=4_500),
        # Nair et al. 2015, arXiv:1507.04296, section 5, follow Mnih et al. 2015.
        # Episodes from human starts end after 30 minutes (--evaluation.starts saved).
        Protocol(name="nair2015", frame="84x84", max_evaluation_steps=4_500),
        # The rules of Machado et al. 2018, JAIR 61, section 5
        Protocol(
            name="machado2018",
            frame="84x84",
            frame_skip=5,
            repeat_action_probability=0.25,
            noop_max=0,
            life_loss_ends_return=False,
            full_action_set=True,
            max_episode_steps=3_600,
            max_evaluation_steps=3_600,
        ),
        # The rules of Dopamine (Castro et al. 2018, arXiv:1812.06110; atari_lib.py)
        Protocol(
            name="dopamine2018",
            frame="84x84",
            repeat_action_probability=0.25,
            noop_max=0,
            life_loss_ends_return=False,
        ),
        # The rules of Espeholt et al. 2018, arXiv:1802.01561, appendix
        Protocol(name="impala2018", frame="84x84"),
        # The rules of DQN Zoo (Quan & Ostrovski 2020, dqn_zoo/dqn/run_atari.py)
        Protocol(name="dqn_zoo2020", frame="84x84", noop_min=1),
        # The rules of CleanRL's ppo_atari.py (Huang et al. 2022), with OpenAI baselines' wrappers
        Protocol(name="cleanrl2022", frame="84x84", noop_min=1, fire_reset="steps"),
        # The rules of Cleanba, which plays on EnvPool (Huang et al. 2023)
        Protocol(
            name="cleanba2023",
            frame="84x84",
            repeat_action_probability=0.25,
            noop_max=0,
            fire_reset="frame",
            life_loss_ends_return=False,
            full_action_set=True,
        ),
    )
}

OVERRIDES = tuple(f.name for f in fields(Protocol) if f.name != "name")


def resolve(name: str, overrides: Mapping[str, Any] | None = None) -> Protocol:
    """Return the protocol `name`, with the fields in `overrides` that are not None. Raises ConfigError."""
    if name not in PROTOCOLS:
        raise ConfigError(
            f"protocol={name!r} is unknown: must be one of {', '.join(PROTOCOLS)}" + nearest(name, PROTOCOLS)
        )
    changed = {k: v for k, v in (overrides or {}).items() if v is not None}
    for key in changed:
        if key not in OVERRIDES:
            raise ConfigError(
                f"{key!r} is no protocol field: must be one of {', '.join(OVERRIDES)}" + nearest(key, OVERRIDES)
            )
    return replace(PROTOCOLS[name], **changed)
