"""The command accel-rl doctor reports this machine's hardware and software, the placement of a run's processes, and
problems."""

import importlib.metadata
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from accel_rl.cli.train_command import parse_train
from accel_rl.machine import hardware
from accel_rl.machine.machine import Machine, read_machine
from accel_rl.planning import plan_report
from accel_rl.planning.plan import RunPlan
from accel_rl.run.run_folder import versions
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import print_help

DEFAULT_RUN = ["ppo", "--game", "pong"]
DEFAULT_RUNS = ("a2c", "ppo", "dqn")  # Algorithms whose runs are planned with --machine
USAGE = """usage: accel-rl doctor [--machine FILE] [ALGORITHM [options]]

Report this machine's hardware and software, the placement of a run's processes, and problems (exit code 1).
ALGORITHM and options are those of accel-rl train. Default: ppo --game pong.

--machine FILE: instead, the placement and memory on a machine that FILE describes, in TOML or JSON; nothing is started.
Default: a2c, ppo and dqn on pong. cores is a number or a list; quota (of the cgroup) and gpus may be left out:

    cores = 16
    quota = 12.5
    memory = "128 GiB"
    gpus = {number = 1, memory = "80 GiB"}"""
_PACKAGES = (
    "torch",
    "numpy",
    "gymnasium",
    "ale_py",
    "accel_rl",
    "psutil",
    "rich",
    "safetensors",
    "matplotlib",
    "wandb",
)
Say = Callable[[str, object], None]
EXTRAS = {
    "ale": "opencv-python-headless",
    "tensorboard": "tensorboard",
    "video": "imageio-ffmpeg",
    "search": "optuna",
    "onnx": "onnxscript",
    "hub": "huggingface_hub",
    "slurm": "submitit",
    "cluster": "ray",
}


def _roms() -> tuple[int, list[str]]:
    from ale_py import roms

    from accel_rl.envs.atari_games import GAMES

    missing = []
    for game in GAMES:
        try:
            if not os.path.exists(str(roms.get_rom_path(game))):
                missing.append(game)
        except Exception:
            missing.append(game)
    return len(GAMES), missing


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def report(config: Resolved) -> tuple[list[str], list[str]]:
    """(facts, problems) as lists of lines. The facts include the placement plan of the run."""
    lines: list[str] = []
    wrong: list[str] = []

    def say(name: str, value: object) -> None:
        lines.append(f"{name:<12} {value}")

    say("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    say("versions", ", ".join(f"{k} {v}" for k, v in versions().items() if v and k != "python"))
    cores, quota = hardware.allowed_cores(), hardware.cgroup_cpus()
    say("cores", f"{len(cores)} allowed {cores}" + (f", of which the cgroup grants {quota:g}" if quota else ""))
    if quota is not None and quota < 1:
        wrong.append(f"the cgroup grants {quota:g} of a core: expect {quota:g} of a core's speed")
    if not hasattr(os, "sched_setaffinity"):
        wrong.append("processes cannot be pinned to cores here: expect uneven speed")
    _gpu(say, wrong)
    for i, line in enumerate(RunPlan.resolve(config).lines()):
        say("" if i else "plan", line if i else f"{config.algorithm} on {config.env.game or config.env.id}: {line}")
    _memory(say, wrong)
    count, missing = _roms()
    say("ROMs", f"{count - len(missing)} of {count} games")
    if missing:
        wrong.append(
            f"no ROM for {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}: "
            "pip install --force-reinstall ale-py"
        )
    _emulator(say, wrong)
    wrong += hidden_modules()
    for extra, package in EXTRAS.items():
        version = _installed(package)
        say(extra, f"{package} {version}" if version else f"not installed: pip install 'accel_rl[{extra}]'")
    return lines, wrong


def hidden_modules() -> list[str]:
    """A line for each file of the current folder that has the name of a module. A script in the current folder would
    import the file instead of the module of the same name."""
    files = [file for file in sorted(Path().glob("*.py")) if file.stem in {*sys.stdlib_module_names, *_PACKAGES}]
    return [f"{file} hides the module {file.stem} from scripts in this folder: rename it" for file in files]


def _emulator(say: Say, wrong: list[str]) -> None:
    from accel_rl.emulator.atari import core
    from accel_rl.emulator.device import nvrtc
    from accel_rl.emulator.games import games
    from accel_rl.emulator.rom_compiler import compilers
    from accel_rl.envs.atari_games import GAMES

    try:
        core()
    except ConfigError as e:
        say("emulator", "not built: Atari is played by ale-py")
        wrong.append(str(e))
        return
    say("emulator", f"built: plays {len(games())} of {len(GAMES)} games (--env.backend)")
    cxx = next((f"by {compiler.version} (--env.translate)" for compiler in compilers()), "")
    say("", f"games are translated {cxx}" if cxx else "games are interpreted: no compiler")
    say("", f"VectorEnv has {len(hardware.usable_cores())} threads by default (num_threads=0), as --sampler.workers")
    try:
        say("", f"on a GPU (--sampler.engine device): compiled by NVRTC {nvrtc.version()} at the first use")
    except ConfigError as e:
        say("", str(e))


def _gpu(say: Say, wrong: list[str]) -> None:
    import torch

    if not torch.cuda.is_available():
        build = (
            f"; torch {torch.__version__} is a CUDA build: one for CPUs is 3 GB smaller" if torch.version.cuda else ""
        )
        say("GPU", f"none: networks run on the CPU{build}")
        if shutil.which("nvidia-smi"):
            wrong.append(
                f"there is an NVIDIA driver, but torch {torch.__version__} sees no GPU: install a CUDA build of torch"
            )
        return
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        say(f"GPU {i}", f"{p.name}, {p.total_memory / 2**30:.0f} GiB")


def _memory(say: Say, wrong: list[str]) -> None:
    import psutil

    from accel_rl.data.spec import EnvSpec
    from accel_rl.samplers.memory_budget import bound

    free = psutil.virtual_memory().available
    say("memory", f"{free / 2**30:.1f} GiB free")
    pictures = EnvSpec("any game", (104, 80), "uint8", n_actions=18, stack=4)
    say("simulators", bound(pictures, T=5).line() + " (5 steps a rollout; --reset swap: twice the emulator)")
    try:
        usage = shutil.disk_usage("/dev/shm")
        say("/dev/shm", f"{usage.free / 2**20:,.0f} MiB free (not used: shared memory is anonymous)")
    except OSError:
        say("/dev/shm", "none (not needed)")
    if free < 2**30:
        wrong.append(f"only {free / 2**20:,.0f} MiB of memory are free: a default run needs about 1 GiB")
    disk = shutil.disk_usage(".").free
    say("disk", f"{disk / 2**30:.1f} GiB free here")
    if disk < 2**28:
        wrong.append("less than 256 MiB of disk are free here: checkpoints may not fit")


def _closing(wrong: int, warnings: int) -> str:
    """Either "nothing is wrong", or the numbers of problems and warnings, such as "1 wrong, 2 warnings"."""
    counts = [f"{wrong} wrong"] * bool(wrong) + [counted(warnings, "warning")] * bool(warnings)
    return ", ".join(counts) or "nothing is wrong"


def split(argv: list[str]) -> tuple[str | None, list[str]]:
    """Remove `--machine FILE` from the arguments: (file or None, the remaining arguments). Raises ConfigError if FILE
    is missing."""
    for i, arg in enumerate(argv):
        if arg.startswith("--machine="):
            return arg.partition("=")[2], argv[:i] + argv[i + 1 :]
        if arg == "--machine":
            if i + 1 == len(argv):
                raise ConfigError("--machine: the file is missing")
            return argv[i + 1], argv[:i] + argv[i + 2 :]
    return None, argv


def plans(file: str, argv: list[str]) -> tuple[list[str], int, list[str]]:
    """(lines, number of warnings, problems) for the plan of the given run, or for the plans of A2C, PPO and DQN, on the
    machine that `file` describes. Raises ConfigError."""
    machine = read_machine(file)
    if machine.memory is None:
        raise ConfigError(f'--machine {file}: memory is missing, such as "128 GiB"')
    if machine.gpus and not machine.gpu_memory:
        raise ConfigError(f'--machine {file}: gpus.memory is missing (gpu_memory beside nodes), such as "80 GiB"')
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
    """(facts, warnings, problems) for the plan of one run."""
    with hardware.described(machine) as said:
        config = resolve(parse_train(words, "accel-rl doctor", "Plan a run."))
        facts, warnings, problems = plan_report.report(RunPlan.resolve(config))
    return facts, [*said, *warnings], problems


def main(argv: list[str]) -> int:
    """The exit code is 1 if the machine has a problem. Raises ConfigError for impossible settings of a run."""
    if argv and argv[0] in ("-h", "--help"):
        print_help(USAGE)
        return 0
    machine, argv = split(argv)
    if argv and argv[0].startswith("-"):
        raise ConfigError(f"accel-rl doctor: the algorithm is missing: accel-rl doctor ppo {shlex.join(argv)}")
    warnings = 0
    if machine is not None:
        lines, warnings, wrong = plans(machine, argv)
    else:
        config = parse_train(argv or DEFAULT_RUN, "accel-rl doctor", "Plan a run.")
        lines, wrong = report(resolve(config))
    print("\n".join(lines))
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(_closing(len(wrong), warnings))
    return 1 if wrong else 0
