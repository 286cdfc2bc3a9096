"""The command `accel-rl launch` runs a script, which may use any library, once for each combination of values. The
scripts run in parallel on slots (sets of cores and GPUs) of this machine.

    accel-rl launch "python train.py --lr {lr} --seed {seed}" lr=1e-3,1e-4 seed=0-2 --gpus 0-7 --runs-per-gpu 2
    accel-rl launch --resume FOLDER
    accel-rl status FOLDER

Each word KEY=VALUES lists the values of {KEY} in the command, and {folder} is the folder of the run. A run is done if
the script's exit code is 0.
"""

import itertools
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.machine.machine import numbers
from accel_rl.parsing.arguments import parse, positionals, stdout
from accel_rl.sweeps import pause, sweep_loop
from accel_rl.sweeps.grid import pairs
from accel_rl.sweeps.layout import LoopOptions, Needs, lay_out, placing, with_placing
from accel_rl.sweeps.script_folder import ScriptFolder
from accel_rl.text.counts import Count, OptionalCount
from accel_rl.text.errors import ConfigError, nearest

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
FOLDER = "folder"
RANGE = re.compile(r"(0|[1-9]\d*)-(0|[1-9]\d*)")
MOST_BYTES = 255
"""The longest name of a folder on Linux."""


@dataclass(frozen=True)
class LaunchOptions(LoopOptions):
    gpus_per_run: OptionalCount = None
    """Number of GPUs for each script, by default 1 if the machine has GPUs."""
    cores_per_run: OptionalCount = None
    """Number of physical cores for each script that gets no GPUs, by default 1."""
    retries: Count = 0
    """Number of times that a failed script is started again."""
    resume: str = ""
    """Run those scripts of this folder that have not ended with exit code 0. A script starts from the beginning, unless
    it continues from files that it has written."""
    dry_run: bool = False
    """Print the slots and the commands without starting them."""


def launch(argv: list[str]) -> int:
    is_resumed = any(a.partition("=")[0] == "--resume" for a in argv)
    names = [] if is_resumed else ['the command, such as "python train.py --seed {seed}"']
    words, options = positionals(argv, names, "accel-rl launch", many=not is_resumed)
    o = parse(LaunchOptions, options, 'accel-rl launch "COMMAND" KEY=VALUES ...', __doc__ or "")
    if is_resumed:
        folder = ScriptFolder(Path(o.resume).expanduser())
        pause.release(folder.path)
        if "script" not in (plan := folder.plan):
            raise ConfigError(f"{folder.path} is no folder of accel-rl launch: accel-rl sweep --resume {folder.path}")
        o, commands = with_placing(o, plan["placing"]), plan["commands"]
        folder.load_records()
        waiting = [name for name in commands if not folder.finished(name, 0)]
    else:
        template = words[0]
        values = values_of(words[1:], template)
        folder = ScriptFolder.new(o.out, program_of(template))
        commands = commands_of(template, values, folder.path)
        waiting = list(commands)
    layout = lay_out(o, dict.fromkeys(waiting, Needs(1, 1)))
    if o.dry_run:
        lines = layout.describe() + [f"  {name}: {shlex.join(commands[name])}" for name in waiting]
        stdout("\n".join(lines))
        return 0
    folder.check_free()
    with folder.locked() as lock:
        if not is_resumed:
            create(folder, commands, o)
        return sweep_loop.run(folder, layout, o, lock)


def create(folder: ScriptFolder, commands: Mapping[str, Sequence[str]], o: LaunchOptions) -> None:
    for name in commands:
        folder.run(name).mkdir(parents=True, exist_ok=True)
    plan = {"script": True, "placing": placing(o), "runs": {name: {} for name in commands}, "commands": commands}
    folder.write("sweep.json", {**plan, "slurm": False, "created": time.time()})


def values_of(words: Sequence[str], template: str) -> dict[str, list[str]]:
    """Return the values of each placeholder of the command. Integers may be given as a range, such as 0-4. Raises
    ConfigError."""
    known = [key for key in dict.fromkeys(PLACEHOLDER.findall(template)) if key != FOLDER]
    result = {}
    for key, text in pairs("accel-rl launch", words).items():
        if key not in known:
            allowed = f"; it has: {', '.join(known)}" if known else ""
            raise ConfigError(f"{key}={text}: the command has no {{{key}}}{nearest(key, known)}{allowed}")
        parts = text.split(",")
        result[key] = [value for part in parts for value in _expanded(part)]
        if "" in parts or len(set(result[key])) < len(result[key]):
            raise ConfigError(f"{key}={text}: must be different values, separated by commas")
    if missing := [key for key in known if key not in result]:
        raise ConfigError(f"the command has {{{missing[0]}}}: give its values, as in {missing[0]}=1,2")
    return result


def _expanded(text: str) -> list[str]:
    """Return the numbers of a range such as 0-4, or the text itself if it is no range."""
    if (match := RANGE.fullmatch(text)) and int(match[1]) < int(match[2]):
        return [str(number) for number in numbers(text)]
    return [text]


def commands_of(template: str, values: Mapping[str, Sequence[str]], folder: Path) -> dict[str, list[str]]:
    """Return the words of each run's command, by the run's name. The command is not run by a shell."""
    result = {}
    for combination in itertools.product(*values.values()):
        name = ",".join(f"{k}={v}" for k, v in zip(values, combination, strict=True)).replace("/", "_") or "run"
        if name in result:
            raise ConfigError(f"two runs would have the folder {name!r}: their values differ only in / and _")
        if len(os.fsencode(name)) > MOST_BYTES:
            raise ConfigError(f"the values of {name[:40]!r}... are too long for the name of a folder")
        chosen = {**dict(zip(values, combination, strict=True)), FOLDER: os.path.abspath(folder / name)}
        result[name] = [_filled(word, chosen) for word in shlex.split(template)]
    return result


def _filled(word: str, chosen: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: chosen[match[1]], word)


def program_of(template: str) -> str:
    """Return the name of the script, for the folder's name. Raises ConfigError if the command's program is not
    found."""
    try:
        words = shlex.split(template)
    except ValueError as e:
        raise ConfigError(f"the command {template!r} cannot be read: {e}") from e
    if not words or shutil.which(words[0]) is None:
        raise ConfigError(f"the command {template!r}: the program {words[0] if words else ''!r} is not found")
    return next((Path(word).stem for word in words if word.endswith((".py", ".sh"))), Path(words[0]).stem)
