"""The command accel-rl train ALGORITHM [options] trains a run. Without an algorithm, the command's help lists the
algorithms."""

import re
from pathlib import Path

from accel_rl import algos
from accel_rl.parsing.help import asked
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import print_help

OVERVIEW = """usage: accel-rl train ALGORITHM [options]

Train an agent: accel-rl train ppo --game pong

Algorithms
{algorithms}
  module:Class     your own algorithm, a subclass of one of these
  module:function  an experiment: a function that returns settings

--game pong or --env CartPole-v1 names the environment, --env-steps 1e6 or --budget 1h the length of the run. \
accel-rl train ppo --help lists all options of an algorithm."""


def overview() -> str:
    """The first sentence of the docstring of each algorithm's module. The module's file is read, and not imported,
    because the import of torch takes seconds."""
    lines = []
    for name, place in ALGORITHMS.items():
        file = Path(algos.__path__[0]) / f"{place.partition(':')[0].rpartition('.')[2]}.py"
        text = " ".join(file.read_text().split('"""')[1].split())
        text = re.sub(r" ?[(][^()]*[)]", "", text).partition(" is ")[2].rstrip(".")
        lines.append(f"  {name:<15}  {text}")
    return OVERVIEW.format(algorithms="\n".join(lines))


def main(argv: list[str]) -> int:
    """Returns the exit code. Raises ConfigError."""
    if not argv or (argv[0].startswith("-") and asked(argv)):
        print_help(overview())
        if not argv:
            raise ConfigError("accel-rl train: the algorithm is missing")
        return 0
    from accel_rl.cli.train_command import train

    return train(argv)
