"""Selects Atari games by name for the benchmarks of the emulator."""

from collections.abc import Sequence

from accel_rl.emulator import games
from accel_rl.emulator.games import rom_path
from accel_rl.text.errors import ConfigError, nearest

# ROMs of ale-py that need two players.
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")


def chosen(names: Sequence[str]) -> list[str]:
    """Return the chosen games. `all57` means the 57 benchmark games, and `all` every ROM of ale-py for one player."""
    named = list(games())
    roms = {path.stem for path in rom_path(named[0]).parent.glob("*.bin")}
    everything = named + sorted(roms - {*named, *TWO_PLAYERS})
    lists = {"all57": named[:57], "all": everything}
    for name in names:
        if name not in everything and (name not in lists or len(names) > 1):
            allowed = f"all57, all, or names with spaces between them{nearest(name, everything)}"
            raise ConfigError(f"--games {' '.join(names)}: no game {name!r}; {allowed}")
    return lists.get(names[0], list(names)) if names else []
