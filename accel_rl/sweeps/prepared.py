"""The runs of a grid with the options of a command: --scale and --override, each checked before any starts."""

import warnings
from collections.abc import Sequence

from accel_rl.runners.plan import RankPlan
from accel_rl.sweeps.grid import Grid, overridden
from accel_rl.sweeps.settings import scaled
from accel_rl.system.errors import ConfigError


def pairs(flag: str, words: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE words. ConfigError."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{flag} {word}: wanted KEY=VALUE")
        if key in found:
            raise ConfigError(f"{flag} {word}: {key} is given twice")
        found[key] = value
    return found


def prepared(grid: Grid, scale: float, override: Sequence[str]) -> Grid:
    """Scale the runs, apply the settings of --override, and check them. ConfigError."""
    if not 0 < scale <= 1:
        raise ConfigError(f"--scale {scale}: must be above 0 and at most 1")
    if scale != 1:
        grid = grid.changed(lambda config: scaled(config, scale))
    grid = overridden(grid, pairs("--override", override))
    for member in grid.members:
        try:
            with warnings.catch_warnings(action="ignore"):  # warnings about shared cores do not apply: the slot decides
                member.config.check()
                RankPlan.resolve(member.config, device="cpu")
        except ConfigError as e:
            raise ConfigError(f"run {member.name}: {e}") from e
    return grid
