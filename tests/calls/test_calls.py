"""Trials of a few failing system calls, also with faults that are planted into accel_rl."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from accel_rl.text.errors import ConfigError
from tests.calls.trial import Fault, Shim

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


def calls(tmp_path, *words):
    """Run `python -m tests.calls`, and return its exit code and its results."""
    command = [sys.executable, "-m", "tests.calls", "--json", str(tmp_path / "out.json"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert "Traceback" not in done.stderr and (tmp_path / "out.json").exists(), done.stdout + done.stderr
    return done.returncode, json.loads((tmp_path / "out.json").read_text())


@pytest.mark.slow
def test_a_run_survives_failed_calls(tmp_path):
    code, result = calls(tmp_path, "--modes", "dqn", "--calls", "fsync", "--errors", "kill", "--every", "20")
    assert code == 0, result["wrong"]
    assert result["outcomes"] == {"dqn/fsync/kill/once": {"resumed": 3}}
    counts = result["calls"]["dqn"]
    assert min(counts["write"], counts["open"], counts["stat"]) > 20 and counts["thread"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "only", "outcome"),
    [
        ("unwritten", "ppo/write/EIO half/once/17", "lost"),
        ("unsaved", "ppo/fsync/EIO/once/21", "traceback"),
        ("unreported", "ppo/mkdir/ENOSPC/once/9", "traceback"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, planted, only, outcome):
    code, result = calls(tmp_path, "--only", only, "--planted", planted)
    assert code == 1 and f"{only}: {outcome}" in result["wrong"][0]


@pytest.mark.slow
@pytest.mark.timeout(5 * 3600)
def test_every_call(tmp_path):
    command = [sys.executable, "-m", "tests.calls", "--every", "4"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_shim_counts_calls_below_the_folder_and_lets_one_fail(tmp_path):
    shim = Shim(tmp_path)
    code = """
import ctypes, os, sys
library, folder, kind, how = sys.argv[1:]
memory = (ctypes.c_int * 64)()
ctypes.CDLL(library).arm(memory, folder.encode(), int(kind), 2, 0, 28, int(how))
results = []
for path in (folder + "/a", "/tmp", folder + "/b", folder + "/c"):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CREAT * (path != "/tmp"))
        results.append("opened")
    except OSError as e:
        results.append(e.errno)
print(*results, memory[0], memory[1 + int(kind)], *sorted(os.listdir(folder)))
"""
    env = {**os.environ, "LD_PRELOAD": str(shim.path)}
    for how, left in (("plain", "a c"), ("done", "a b c")):
        (folder := tmp_path / how).mkdir()
        kind, number = shim.calls.index("open"), ("plain", "done").index(how)
        words = [sys.executable, "-c", code, str(shim.path), str(folder), str(kind), str(number)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"opened opened {errno.ENOSPC} opened 1 3 {left}"


def test_a_trial_is_named():
    fault = Fault("ppo", "rename", "EIO done", True, 3)
    assert Fault.parse(str(fault)) == fault and fault.numbers == (errno.EIO, 1)
    for text in ("ppo/rename/EIO done/3", "ppo/rename/short/once/3", "no/rename/EIO/once/3", ""):
        with pytest.raises(ConfigError, match="must be MODE/CALL/FAULT"):
            Fault.parse(text)


def test_no_compiler_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ConfigError, match="needs a C compiler, and there is no no-such-compiler"):
        Shim(tmp_path)
