"""accel-rl games"""

from accel_rl.config.arguments import stdout
from accel_rl.envs.games_table import table
from accel_rl.system.errors import ConfigError


def main(argv: list[str]) -> int:
    """accel-rl games"""
    if argv and argv[0] not in ("-h", "--help"):
        raise ConfigError(f"accel-rl games takes no arguments; got {argv[0]!r}")
    stdout("\n".join(table()))
    return 0
