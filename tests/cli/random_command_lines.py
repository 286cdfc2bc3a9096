"""Random command lines and config.json files, which accel-rl must accept, or refuse in one line.

    python -m tests.cli.random_command_lines --number 10000 --seed 1
    python -m tests.cli.random_command_lines --seed 1 --only 17      # case 17 of seed 1 again, with its output

Each case runs in a fork of a process that has imported all modules. The fork of an accepted command ends when it would
create the run's folder or start a process.
"""

import contextlib
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, program
from benchmarks.harness.table import table

LIMIT_S, HANG_S = 3.0, 30.0
"""LIMIT_S: allowed CPU time of a refused command in seconds. HANG_S: a case is killed after HANG_S seconds of CPU time,
or after HANG_S seconds without CPU time."""
MEMORY_BYTES = 16 << 30
ACCEPTED = 99
ALGORITHMS = ("a2c", "ppo", "dqn", "c51", "qrdqn", "rainbow", "r2d2", "pqn", "impala")
USUAL = ("0", "1", "2", "4", "8", "16", "64", "0.1", "0.5", "0.99", "1000", "auto", "none", "cpu", "linear", "pong")
VALUES = (
    *("0", "1", "2", "3", "7", "16", "100", "-1", "-0", "0.5", "1e-9", "1e3", "1e9", "1e18", "1e300", "-1e18", "1e999"),
    *("nan", "inf", "-inf", "", " ", "abc", "auto", "none", "None", "True", "false", "pong", "cpu", "cuda:7", "sim:9"),
    *("0,1", "1 2", "0x10", "1_000", "٣", "ppö", "a" * 300, "/dev/null", "/proc/1/mem", "..", "os:abort", "json:loads"),
    *("nothing:here", ":", "x:", ".y:z", "CartPole-v1", "99999999999999999999", "0.1 0.2", "--seed", "-"),
)
LEAVES = (None, True, -1, 0, 1.5, 1e300, float("nan"), float("inf"), "", "pong", "a" * 300, [], {}, [1, [2]], {"a": 1})


@dataclass(frozen=True)
class Options:
    number: Count = 1_000
    """Number of cases. Every third case is a changed config.json."""
    seed: int = 0
    """Seed of all random choices. A case depends only on the seed and on the number of the case."""
    only: int | None = None
    """Number of the single case to run."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        if self.number < 1:
            raise ConfigError(f"--number {self.number}: must be at least 1")


def run_cases(o: Options) -> dict[str, Any]:
    """Run the cases, and return the counts of outcomes and the cases that went wrong."""
    from accel_rl.cli import main

    counts: Counter[str] = Counter()
    wrong: list[str] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="lines-") as root:
        run = _finished_run(main, Path(root))
        flags = {name: _flags(main, Path(root), name) for name in ALGORITHMS}
        for k in range(o.number) if o.only is None else [o.only]:
            rng = random.Random(f"{o.seed} {k}")
            folder = Path(root) / "case"
            arguments = _changed_run(rng, run, folder) if k % 3 == 2 else _command_line(rng, flags, folder)
            code, seconds, text = _in_fork(main, arguments, folder)
            problem = _problem(code, seconds, text)
            kind = "config.json" if k % 3 == 2 else "command line"
            outcome = "accepted" if code in (0, 1, ACCEPTED, -signal.SIGKILL) else "refused"
            counts[f"{kind}, {'wrong' if problem else outcome}"] += 1
            slowest = max(slowest, seconds)
            if problem:
                wrong.append(f"{k}: {problem}: accel-rl {' '.join(arguments)[:300]}")
                print(wrong[-1], flush=True)
            if o.only is not None:
                print(f"accel-rl {' '.join(arguments)}\n{text}exit code {code}, {seconds:.2f} s")
            shutil.rmtree(folder, ignore_errors=True)
    return {"counts": dict(counts), "slowest_s": slowest, "wrong": wrong}


def _problem(code: int, seconds: float, text: str) -> str:
    """Return a description of the error if a case ended in a way that is not allowed, or ""."""
    lines = text.strip().splitlines()
    if "Traceback (most recent call last)" in text:
        return f"a traceback: {lines[-1][:200]}"
    if code == -signal.SIGKILL:  # Only a resumed run that was training may exceed HANG_S.
        return "" if " env steps on " in text else "no end"
    if code not in (0, 1, 2, ACCEPTED):
        return f"exit code {code}"
    if code == 2 and not any(line.startswith("accel-rl: ") for line in lines[-2:]):
        return f"no line that says why: {lines[-1:]}"
    if code == 2 and seconds > LIMIT_S:
        return f"{seconds:.1f} s"
    return ""


def _command_line(rng: random.Random, flags: dict[str, list[str]], folder: Path) -> list[str]:
    algorithm = rng.choice(ALGORITHMS)
    arguments = ["train", algorithm, *rng.choice((("--game", "pong"), ("--env", "CartPole-v1"), ()))]
    for flag in rng.choices(flags[algorithm], k=rng.randint(1, 4)):
        if rng.random() < 0.05:  # Insert a typing mistake into the flag's name.
            position = rng.randrange(2, len(flag))
            flag = flag[:position] + flag[position + 1 :]
        value = rng.choice(USUAL if rng.random() < 0.6 else VALUES)
        arguments += [flag, *([value] if rng.random() < 0.95 else [])]
    return [*arguments, "--run-dir", str(folder)] if rng.random() < 0.9 else arguments


def _changed_run(rng: random.Random, run: Path, folder: Path) -> list[str]:
    """Copy the run `run` to `folder` with a changed config.json, and return a command that reads the copy."""
    shutil.copytree(run, folder)
    text = (run / "config.json").read_text()
    if rng.random() < 0.2:
        position = rng.randrange(len(text))
        text = rng.choice(
            (text[:position], text[:position] + chr(rng.randrange(1, 300)) + text[position + 1 :], "", "[" * 100_000)
        )
    else:
        config = json.loads(text)
        for _ in range(rng.randint(1, 3)):
            _change(rng, config)
        text = json.dumps(config)
    (folder / "config.json").write_text(text)
    command = rng.choice((["resume"], ["report"], ["evaluate", "--episodes", "1"], ["export"]))
    return [command[0], str(folder), *command[1:]]


def _change(rng: random.Random, config: dict[str, Any]) -> None:
    node: Any = config
    while True:
        key = rng.choice(list(node))
        if isinstance(node[key], dict) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        kind = rng.random()
        if kind < 0.2:
            del node[key]
        elif kind < 0.3:
            node[key + "_"] = node.pop(key)
        else:
            node[key] = copy.deepcopy(rng.choice(LEAVES))
        return


def _finished_run(main: Any, root: Path) -> Path:
    arguments = ["train", "ppo", "--env", "CartPole-v1", "--envs", "4", "--env-steps", "160", "--engine", "in-process"]
    arguments += ["--evaluation.episodes", "1", "--run-dir", str(root / "run")]
    code, _, text = _in_fork(main, arguments, root / "case", ends_accepted=False)
    assert code == 0, text
    return root / "run"


def _flags(main: Any, root: Path, algorithm: str) -> list[str]:
    code, _, text = _in_fork(main, ["train", algorithm, "--help-all"], root / "case")
    flags = re.findall(r"^ +(--[a-z0-9.-]+)", text, flags=re.M)
    assert code == 0 and len(flags) > 30, text[-500:]
    return flags


def _in_fork(main: Any, arguments: list[str], folder: Path, ends_accepted: bool = True) -> tuple[int, float, str]:
    """Run accel-rl in a fork. Return the exit code, the CPU time in seconds, and the output."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as output:
        if not (pid := os.fork()):
            exit_with(lambda: _run_child(main, arguments, folder, output.fileno(), ends_accepted))
        deadline, used = time.monotonic() + HANG_S, 0.0
        while True:
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                break
            if (cpu_s := sum(psutil.Process(pid).cpu_times()[:2])) > used:
                used, deadline = cpu_s, time.monotonic() + HANG_S
            if used > HANG_S or time.monotonic() > deadline:
                # killpg fails if the fork has not created its process group yet.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        output.seek(0)
        return (
            os.waitstatus_to_exitcode(status),
            usage.ru_utime + usage.ru_stime,
            output.read().decode(errors="replace"),
        )


def _run_child(main: Any, arguments: list[str], folder: Path, output: int, ends_accepted: bool) -> int:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    work = folder.parent / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    if ends_accepted:
        sys.addaudithook(_end_accepted(arguments[0], str(folder)))
    return main.main(arguments)


def exit_with(call: Callable[[], int]) -> NoReturn:
    """Call a function in a fork, and end the process with the exit code that the function returns or raises."""
    code = 1
    try:
        code = call()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_accepted(command: str, folder: str) -> Any:
    """Return an audit hook that ends a process when it creates a run folder, or starts a worker or rank."""

    def hook(event: str, details: tuple[Any, ...]) -> None:
        is_run = event == "os.mkdir" and command == "train" and (str(details[0]) == folder or "runs" in str(details[0]))
        is_process = event == "subprocess.Popen" and "accel_rl" in str(details[1])
        if is_run or is_process:
            sys.stdout.flush()
            os._exit(ACCEPTED)

    return hook


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return the table of outcomes."""
    m = machine()
    rows = [[name, n] for name, n in sorted(result["counts"].items())]
    rows.append(["greatest CPU time in seconds", result["slowest_s"]])
    return [f"{m['cpu']}, {m['date']}, seed {o.seed}", "", *table(["cases", "number"], rows)]


if __name__ == "__main__":
    sys.exit(program("tests.cli.random_command_lines", __doc__, Options, sys.argv[1:], run_cases, report))
