"""Names that settings of type text may have. Help lists the names, and a shell completes them."""

from collections.abc import Iterable

from accel_rl.config.doors import ENGINES, SCHEDULES, UPDATES
from accel_rl.config.presets import PRESETS
from accel_rl.envs.atari_games import GAMES
from accel_rl.envs.make import BACKENDS, RANDOMNESS, TRANSLATE
from accel_rl.envs.protocols import PROTOCOLS
from accel_rl.models.networks import NETWORKS

USERS = "module:Class"
CHOICES: dict[str, Iterable[str]] = {
    "--game": GAMES,
    "--env.game": GAMES,
    "--env.protocol": PROTOCOLS,
    "--env.backend": BACKENDS,
    "--env.randomness": RANDOMNESS,
    "--env.translate": TRANSLATE,
    "--algo.network": (*NETWORKS, USERS),
    "--sampler.engine": (*ENGINES, USERS),
    "--distributed.update": (*UPDATES, USERS),
    "--schedule": (*SCHEDULES, USERS),
    "--preset": PRESETS,
    "--device": ("auto", "cpu", "cuda"),
}
"""Maps each flag to its names. `USERS` means that a user's class is also allowed."""
MOST_LISTED = 12
"""Help lists at most `MOST_LISTED` names."""


def listed(flag: str) -> str:
    """Return the names of a flag for a help text, or "" if the flag has none, or too many."""
    names = tuple(CHOICES.get(flag, ()))
    return ", ".join(names) if len(names) <= MOST_LISTED else ""
