"""accel-rl watch RUN [options]"""

from pathlib import Path

from accel_rl.api.options import WatchOptions
from accel_rl.api.trained_agent import watch
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder


def main(argv: list[str]) -> int:
    """accel-rl watch RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl watch")
    chosen = parse(WatchOptions, options, "accel-rl watch RUN", "Make a video of a run's agent playing one episode.")
    chosen.check()
    run, config = RunFolder.open(Path(words[0]).expanduser())
    out, n, episode = watch(run, config, chosen)
    stdout(f"{out}: {n} pictures, score {episode.score:g} in {episode.length:,} env steps")
    return 0
