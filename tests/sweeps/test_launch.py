"""`accel-rl launch` runs scripts of other libraries on the slots of the machine."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from accel_rl.sweeps.launch_command import commands_of, launch, values_of
from accel_rl.sweeps.sweep_display import status
from accel_rl.text.errors import ConfigError

SCRIPT = """
import os, sys, time
lr, seed, folder = sys.argv[1:]
print(lr, seed, len(os.sched_getaffinity(0)), repr(os.environ["CUDA_VISIBLE_DEVICES"]), flush=True)
count = os.path.join(folder, "starts")
open(count, "a").write("x")
if seed == "1" and len(open(count).read()) < 3:
    sys.exit("no luck")
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    return f"{sys.executable} {tmp_path / 'script.py'} {{lr}} {{seed}} {{folder}}"


def test_each_combination_runs_once_on_its_own_cores_and_failed_scripts_are_resumed(tmp_path, command, capsys):
    folder = tmp_path / "runs"
    assert launch([command, "lr=1e-3,1e-4", "seed=0-1", "--out", str(folder), "--gpus", "none"]) == 1
    out = capsys.readouterr().out
    assert "4 runs: 2 failed, 2 done" in out and f"next: accel-rl launch --resume {folder}" in out
    assert (folder / "lr=1e-4,seed=0" / "log.txt").read_text() == "1e-4 0 1 ''\n"
    assert (folder / "lr=1e-4,seed=1" / "log.txt").read_text() == "1e-4 1 1 ''\nno luck\n"
    assert (
        launch(["--resume", str(folder), "--retries", "1"]) == 0
    )  # The second start of the failed scripts fails again, and the third succeeds.
    starts = {run.name: (run / "starts").read_text() for run in folder.iterdir() if run.is_dir()}
    assert starts == {"lr=1e-3,seed=0": "x", "lr=1e-3,seed=1": "xxx", "lr=1e-4,seed=0": "x", "lr=1e-4,seed=1": "xxx"}
    capsys.readouterr()
    assert status([str(folder)]) == 0 and "4 runs: 4 done" in capsys.readouterr().out


@pytest.mark.slow
def test_scripts_that_were_stopped_run_again(tmp_path):
    folder = tmp_path / "runs"
    words = [sys.executable, "-m", "accel_rl", "launch", "sleep {s}", "s=100,0.1", "--out", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def states() -> dict[str, str]:
        try:
            return {name: r["status"] for name, r in json.loads((folder / "state.json").read_text()).items()}
        except FileNotFoundError:
            return {}

    deadline = time.monotonic() + 60
    while states() != {"s=100": "running", "s=0.1": "done"} and time.monotonic() < deadline:
        time.sleep(0.1)
    assert states() == {"s=100": "running", "s=0.1": "done"}
    pid = json.loads((folder / "state.json").read_text())["s=100"]["pid"]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "2 runs: 1 stopped, 1 done" in out, err
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert launch(["--resume", str(folder), "--dry-run"]) == 0


@pytest.mark.slow
def test_the_child_processes_of_a_script_stop_with_it(tmp_path):
    (tmp_path / "run.sh").write_text("sleep 98765 &\necho $! > $1/child\nwait\n")
    words = [sys.executable, "-m", "accel_rl", "launch", f"sh {tmp_path}/run.sh {{folder}}", "--out", tmp_path / "runs"]
    process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file, deadline = tmp_path / "runs" / "run" / "child", time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.1)
    child = psutil.Process(int(file.read_text()))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    child.wait(timeout=10)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["echo {lr}", "lr=1", "sed=2"], "sed=2: the command has no {sed}; it has: lr"),
        (["echo {seed}", "sed=2"], "the command has no {sed}; nearest: seed; it has: seed"),
        (["echo {lr}"], "the command has {lr}: give its values, as in lr=1,2"),
        (["echo {lr}", "lr=1,1"], "lr=1,1: must be different values"),
        (["echo {lr}", "lr=1,"], "lr=1,: must be different values"),
        (["echo {lr}", "lr"], "lr: wanted KEY=VALUE"),
        (["echo {x}", "x=a/b,a_b"], "two runs would have the folder 'x=a_b': their values differ only in / and _"),
        (["echo {x}", f"x={'y' * 300}"], "are too long for the name of a folder"),
        (["no-such-program {lr}", "lr=1"], "the program 'no-such-program' is not found"),
        (["echo '{lr}", "lr=1"], "cannot be read: No closing quotation"),
        (["", "lr=1"], "the command has no {lr}"),
    ],
)
def test_wrong_input_is_one_line_before_a_script_starts(words, message, tmp_path):
    with pytest.raises(ConfigError) as e:
        launch([*words, "--out", str(tmp_path / "runs")])
    assert message in str(e.value) and "\n" not in str(e.value) and not (tmp_path / "runs").exists()


def test_the_words_of_a_command_are_those_of_a_shell_without_its_expansions(tmp_path):
    template = "python t.py --name 'a {x}' --path {folder}/$HOME {other}"
    values = values_of(["x=1 2,b;c", "other=3"], template)
    commands = commands_of(template, values, tmp_path)
    assert commands["x=1 2,other=3"] == [
        "python", "t.py", "--name", "a 1 2", "--path", f"{tmp_path}/x=1 2,other=3/$HOME", "3",
    ]  # fmt: skip
    assert "a b;c" in commands["x=b;c,other=3"]


def test_only_plain_rising_numbers_are_a_range():
    text = "0-2,64-64,00-02,5-2,1e-3"
    assert values_of([f"x={text}"], "echo {x}") == {"x": ["0", "1", "2", "64-64", "00-02", "5-2", "1e-3"]}
