"""accel-rl push MODEL NAME/MODEL [options]"""

from dataclasses import dataclass
from pathlib import Path

from accel_rl.api.hub import push
from accel_rl.config.arguments import parse, positionals, stdout


@dataclass(frozen=True)
class PushOptions:
    private: bool = False
    """Make a new model of the hub private."""


def main(argv: list[str]) -> int:
    """accel-rl push MODEL NAME/MODEL [options]"""
    words, options = positionals(
        argv, ["the folder of a model (accel-rl export)", "NAME/MODEL on the hub, or a new folder"], "accel-rl push"
    )
    chosen = parse(
        PushOptions, options, "accel-rl push MODEL NAME/MODEL", "Upload a model to a model hub. Needs the extra hub."
    )
    stdout(push(Path(words[0]).expanduser(), words[1], chosen.private))
    return 0
