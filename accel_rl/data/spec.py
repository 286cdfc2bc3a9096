"""An environment's specification describes its observations, actions and rules."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

UNBOUNDED = 1e30


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """The observations and actions of an environment.

    An observation consists of `stack` frames. Image observations have the shape [stack, H, W], or [stack, C, H, W] if
    frames have channels. Other observations are vectors [n], and `stack` is 1. An observation of a picture and a vector
    consists of bytes [n]: the bytes of the picture [*picture_shape] of `picture_dtype`, then the bytes of the vector,
    as float32.

    An action is one of `n_actions`, or consists of several numbers. With `choices`, number d of an action is one of
    choices[d], and `n_actions` is the sum of all choices. With `low` and `high`, the numbers of an action are real, the
    environment clips them to these bounds, and `n_actions` is their number. If `mask` is not 0, it equals `n_actions`,
    and the last `n_actions` numbers of an observation are 1 for allowed actions and 0 for others.

    `info_bytes` is the size, in bytes, of the numbers that an environment reports when an episode ends. `protocol` is
    the resolved set of rules by which the environment plays, and is recorded with every score.
    """

    name: str
    frame_shape: tuple[int, ...]
    frame_dtype: str  # Images are "uint8", which networks divide by 255, or "float32". Vectors are "float32".
    n_actions: int
    stack: int = 1
    action_meanings: tuple[str, ...] = ()
    protocol: dict[str, Any] = field(default_factory=dict)
    info_bytes: int = 0
    mask: int = 0
    picture_shape: tuple[int, ...] = ()
    picture_dtype: str = ""
    choices: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return (self.stack, *self.frame_shape) if self.is_image else self.frame_shape

    @property
    def oldest(self) -> int:
        """Largest value of `age`. `oldest` is at least 1, so that age 0 always marks an episode's first step."""
        return max(self.stack - 1, 1)

    @property
    def is_image(self) -> bool:
        return len(self.frame_shape) in (2, 3)

    @property
    def picture(self) -> "EnvSpec | None":
        """The spec of the picture in an observation, or None for vectors."""
        if not self.picture_shape:
            return self if self.is_image else None
        return replace(self, frame_shape=self.picture_shape, frame_dtype=self.picture_dtype, picture_shape=())

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (len(self.low or self.choices),) if self.low or self.choices else ()

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """The interval of each number of a uniformly random action: the number's bounds, or -1 and 1 if the number is
        not bounded."""
        return [(a, b) if b - a < UNBOUNDED else (-1.0, 1.0) for a, b in zip(self.low, self.high, strict=True)]

    @property
    def action_dtype(self) -> str:
        return "float32" if self.low else "int64"

    @property
    def channels(self) -> int:
        """`stack` times the number of a frame's channels."""
        return self.stack * (self.frame_shape[0] if len(self.frame_shape) == 3 else 1)

    @property
    def is_atari(self) -> bool:
        """Whether the environment is played by the rules of a protocol (`envs/protocols.py`)."""
        return "frame_skip" in self.protocol

    def limited(self, steps: int | None) -> "EnvSpec":
        """Return the spec with the additional time limit that an episode lasts at most `steps` agent steps. The shorter
        of the two time limits applies. A vector environment has its own time limit, so that none is added."""
        if "autoreset" in self.protocol:
            return self
        limits = (self.protocol.get("max_episode_steps"), steps)
        return replace(
            self,
            protocol={**self.protocol, "max_episode_steps": min((n for n in limits if n is not None), default=None)},
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "EnvSpec":
        lists = {k: tuple(v) for k, v in d.items() if isinstance(v, list)}
        return cls(**{**d, **lists})
