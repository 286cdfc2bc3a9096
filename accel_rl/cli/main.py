"""The console script accel-rl runs the commands train, resume, evaluate ..."""

import importlib
import sys
from collections.abc import Callable
from typing import cast

from accel_rl.processes.child import run_program
from accel_rl.text.errors import ConfigError, ended, nearest
from accel_rl.text.output import print_help

COMMANDS = {
    "train": "train an agent: accel-rl train a2c --game pong",
    "resume": "continue a run from its newest checkpoint: accel-rl resume RUN",
    "evaluate": "score a run's agent on fresh episodes: accel-rl evaluate RUN",
    "watch": "make a video of a run's agent: accel-rl watch RUN",
    "runs": "list runs and the settings in which they differ: accel-rl runs FOLDER --where algorithm=ppo",
    "plot": "draw learning curves: accel-rl plot RUN [RUN ...]",
    "sweep": "train a grid of runs: accel-rl sweep stooke:figure_3",
    "launch": "run a script of any library with several values: accel-rl launch 'python train.py {seed}' seed=0-4",
    "search": "search for good settings: accel-rl search experiments.spaces:pong_ppo",
    "status": "show what the runs of a sweep are doing: accel-rl status FOLDER",
    "report": "compare runs with published results: accel-rl report RUNS",
    "export": "write a run's network as a model that others can load: accel-rl export RUN",
    "push": "upload a model to a model hub: accel-rl push MODEL NAME/MODEL",
    "pull": "download a model from a model hub: accel-rl pull NAME/MODEL",
    "starts": "record start points for evaluations: accel-rl starts pong",
    "doctor": "report this machine's hardware, the placement of a run, and problems",
    "bench": "measure how fast a sampler plays on this machine",
    "completion": "print a script for the tab key in bash, zsh or fish: accel-rl completion bash",
    "games": "list the games with their published random and human scores",
}

PLACES = {
    **{name: f"accel_rl.cli.{name}:main" for name in ("train", "doctor", "bench", "completion", "sweep")},
    **{
        name: f"accel_rl.cli.run_commands:{name}_command"
        for name in ("resume", "evaluate", "watch", "export", "push", "pull", "starts")
    },
    **{name: f"accel_rl.cli.report_commands:{name}_command" for name in ("plot", "report")},
    **{name: f"accel_rl.cli.listings:{name}_command" for name in ("games", "runs")},
    "launch": "accel_rl.sweeps.launch_command:launch",
    "search": "accel_rl.sweeps.search_command:search",
    "status": "accel_rl.sweeps.sweep_display:status",
}
"""Maps each command to its function, which receives the arguments and returns the exit code."""


MEANT = {
    "enjoy": "watch", "play": "watch", "record": "watch", "render": "watch", "list": "runs", "ls": "runs",
    "eval": "evaluate", "test": "evaluate", "tune": "search", "optimize": "search", "benchmark": "bench",
    "check": "doctor", "continue": "resume", "envs": "games",
}  # fmt: skip
"""Maps commands of other libraries to commands of accel-rl."""


def function_of(command: str) -> Callable[[list[str]], int]:
    module, _, name = PLACES[command].partition(":")
    return cast(Callable[[list[str]], int], getattr(importlib.import_module(module), name))


def _help() -> str:
    lines = [f"  {name:<10} {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: accel-rl COMMAND ...",
            "",
            "Deep reinforcement learning on Atari at the speed of the hardware.",
            "",
            "commands:",
            *lines,
            "",
            "accel-rl COMMAND --help lists a command's options.",
        ]
    )


def dispatch(argv: list[str]) -> int:
    if argv[:1] == ["help"]:  # `accel-rl help train` is `accel-rl train --help`.
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in ("-h", "--help"):
        print_help(_help())
        return 0
    if argv[0] in ("-V", "--version"):
        from accel_rl.version import __version__

        print(__version__)
        return 0
    if argv[0] not in COMMANDS:
        near = f"; use {MEANT[argv[0]]}" if argv[0] in MEANT else nearest(argv[0], COMMANDS)
        raise ConfigError(f"unknown command {argv[0]!r}; allowed: {', '.join(COMMANDS)}{near}")
    return function_of(argv[0])(argv[1:])


def main(argv: list[str] | None = None) -> int:
    """The exit code is 0 for success, 1 if the run failed, 2 for wrong settings, and 128 + n after a stop by signal
    n."""
    return ended("accel-rl", dispatch, sys.argv[1:] if argv is None else argv)


def script() -> None:
    run_program(main)
