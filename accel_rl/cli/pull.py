"""accel-rl pull NAME/MODEL [options]"""

from dataclasses import dataclass
from pathlib import Path

from accel_rl.api.hub import pull
from accel_rl.config.arguments import parse, positionals, stdout


@dataclass(frozen=True)
class PullOptions:
    out: str = ""
    """Folder of the model; it is created. Default: models/NAME/MODEL."""


def main(argv: list[str]) -> int:
    """accel-rl pull NAME/MODEL [options]"""
    words, options = positionals(argv, ["NAME/MODEL on the hub, or the folder of a model"], "accel-rl pull")
    chosen = parse(
        PullOptions, options, "accel-rl pull NAME/MODEL", "Download a model from a model hub. Needs the extra hub."
    )
    out = Path(chosen.out).expanduser() if chosen.out else Path("models") / words[0].strip("/.~")
    pull(words[0], out)
    stdout(f"{out}\nnext:\n  accel-rl evaluate {out}\n  accel-rl watch {out}")
    return 0
