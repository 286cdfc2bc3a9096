"""`python -m experiments.suite_agent RUN` exports the network of a finished run of the suite, in float16, to
experiments/models/ALGORITHM-GAME."""

import sys
from pathlib import Path

from accel_rl.api.export import export
from accel_rl.api.options import ExportOptions
from accel_rl.api.suite_models import SUITE, SUITE_PREFIX
from accel_rl.api.trained_agent import read_state
from accel_rl.parsing.arguments import positionals, stdout
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError, ended

PROGRAM = "python -m experiments.suite_agent"


def add(argv: list[str]) -> int:
    """Raises ConfigError if the run is unfinished or not evaluated, or if the folder of its model already exists."""
    words, options = positionals(argv, ["the folder of a finished run"], PROGRAM)
    if options:
        raise ConfigError(f"{options[0]}: {PROGRAM} RUN has no options")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    if not config.env.game:
        raise ConfigError(f"{run.path} plays {config.env.id}: the suite has Atari games")
    state = read_state(run)
    steps = state["env_steps"] if state else 0
    if steps < config.env_steps:
        raise ConfigError(f"{run.path} has a checkpoint at {steps:,} of {config.env_steps:,} env steps: finish the run")
    if not (run.path / f"evaluations/{steps:012d}.json").exists():
        raise ConfigError(f"{run.path} has no evaluation at its end, {steps:,} env steps")
    name = f"{config.algorithm}-{config.env.game}"
    out, about = export(run, config, ExportOptions(out=str(SUITE / name), float16=True))
    stdout(f"{out}: score {about['evaluation']['score_mean']:.2f}; accel-rl evaluate {SUITE_PREFIX}{name}")
    return 0


if __name__ == "__main__":
    sys.exit(ended(PROGRAM, add, sys.argv[1:]))
