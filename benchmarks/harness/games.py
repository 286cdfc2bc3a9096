"""Selects Atari games by name for the benchmarks of the emulator."""

from accel_rl.emulator import games
from accel_rl.emulator.games import rom_path
from accel_rl.text.errors import ConfigError, nearest

# ale-py has ROMs that need two players.
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")


def chosen(text: str) -> list[str]:
    """Return the games of `all57`, `all` (every ROM that ale-py loads for one player), or names with commas."""
    named = list(games())
    roms = {path.stem for path in rom_path(named[0]).parent.glob("*.bin")}
    everything = named + sorted(roms - {*named, *TWO_PLAYERS})
    if text in ("all57", "all"):
        return named[:57] if text == "all57" else everything
    for name in text.split(","):
        if name not in everything:
            allowed = f"all57, all, or names with commas{nearest(name, everything)}"
            raise ConfigError(f"--games {text}: no game {name!r}; {allowed}")
    return text.split(",")
