"""The command accel-rl doctor --machine FILE prints the plan of a run for a described machine, without starting a
process."""

from accel_rl.cli.train_command import parse_train
from accel_rl.config.resolved import resolve
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.plan_report import report
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError
from accel_rl.system.machine import Machine, read_machine

DEFAULT_RUNS = ("a2c", "ppo", "dqn")


def split(argv: list[str]) -> tuple[str | None, list[str]]:
    """Remove `--machine FILE` from the arguments, and return (file or None, the remaining arguments). Raises
    ConfigError if FILE is missing."""
    for i, arg in enumerate(argv):
        if arg.startswith("--machine="):
            return arg.partition("=")[2], argv[:i] + argv[i + 1 :]
        if arg == "--machine":
            if i + 1 == len(argv):
                raise ConfigError("--machine: the file is missing")
            return argv[i + 1], argv[:i] + argv[i + 2 :]
    return None, argv


def plans(file: str, argv: list[str]) -> tuple[list[str], int, list[str]]:
    """Return (lines, number of warnings, problems) of the plan of a run, or of the plans of A2C, PPO and DQN. Raises
    ConfigError."""
    machine = read_machine(file)
    if machine.memory is None:
        raise ConfigError(f"--machine {file}: memory is missing")
    if machine.gpus and not machine.gpu_memory:
        raise ConfigError(f"--machine {file}: gpu_memory is missing")
    lines = [f"machine      {machine.resources()}"]
    warnings = 0
    problems = []
    for words in [argv] if argv else [[name, "--game", "pong"] for name in DEFAULT_RUNS]:
        facts, warned, wrong = _plan(machine, words)
        lines += ["", f"accel-rl train {' '.join(words)}", *(f"  {line}" for line in facts)]
        lines += [f"  warning: {line}" for line in warned]
        warnings += len(warned)
        problems += [f"{words[0]}: {line}" for line in wrong]
    return lines, warnings, problems


def _plan(machine: Machine, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return (facts, warnings, problems) of the plan of one run."""
    with hardware.described(machine) as said:
        config = resolve(parse_train(words, "accel-rl doctor", "Plan a run."))
        facts, warnings, problems = report(config, RunPlan.resolve(config))
    return facts, [*said, *warnings], problems
