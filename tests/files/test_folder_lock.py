"""Locks of folders on file systems that have none: a real process whose flock fails, and stale owners."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from accel_rl.files import folder_lock
from accel_rl.files.folder_lock import OWNER, holder, locked
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError

SHIM = """
#include <errno.h>
#include <stdlib.h>
int flock(int fd, int operation) { errno = atoi(getenv("FLOCK_ERRNO")); return -1; }
"""
SMALL = (
    *("--env", "CartPole-v1", "--engine", "in-process", "--torch-threads", "1", "--envs", "4", "--horizon", "10"),
    *("--minibatch", "20", "--evaluation.interval", "0", "--decorrelation-steps", "0"),
)


def message(other):
    return f"in use by {other}"


@pytest.fixture(params=[errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def without_locks(request, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("number", [errno.ENOLCK, pytest.param(errno.ENOSYS, marks=pytest.mark.slow)])
def test_a_run_on_a_file_system_without_locks(tmp_path, number):
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c"], check=True)
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "shim.so"), "FLOCK_ERRNO": str(number)}
    run = tmp_path / "run"
    for words in (
        ("train", "ppo", *SMALL, "--env-steps", "80", "--run-dir", run),
        ("resume", run, "--env-steps", "120"),
    ):
        command = [sys.executable, "-m", "accel_rl", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        assert (done.stdout + done.stderr).count("is on a file system without locks") == 1
        assert not (run / OWNER).exists()
    assert sorted(p.name for p in (run / "checkpoints").iterdir())[-1] == "000000000120"


def test_a_second_process_is_refused(tmp_path, without_locks):
    with locked(tmp_path, message):
        assert holder(tmp_path).pid == os.getpid()
        with pytest.raises(ConfigError, match=rf"in use by process {os.getpid()} .*if it has ended, remove"):
            locked(tmp_path, message).__enter__()
        assert (tmp_path / OWNER).exists()  # The refused process has not removed it.
    assert holder(tmp_path) is None and not (tmp_path / OWNER).exists()


def test_the_owner_has_ended(tmp_path, without_locks):
    """A process of this host that was killed, and a later process with its number, hold nothing."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    node = folder_lock.platform.node()
    for line in (f"{ended.pid} {node} 1.00\n", f"{os.getpid()} {node} 1.00\n"):
        (tmp_path / OWNER).write_text(line)
        assert holder(tmp_path) is None
        with locked(tmp_path, message):
            assert holder(tmp_path).pid == os.getpid()


@pytest.mark.parametrize("line", ["4711 another-host 1.00\n", "garbage\n", ""])
def test_an_owner_that_cannot_be_checked_holds_the_lock(tmp_path, without_locks, line):
    (tmp_path / OWNER).write_text(line)
    with pytest.raises(ConfigError, match=OWNER):
        locked(tmp_path, message).__enter__()
    assert holder(tmp_path) is not None


@pytest.mark.parametrize("content", [b"", b"\xff\xfe 1", b"many words"])
def test_a_lock_file_that_says_nothing_still_locks(tmp_path, content):
    with locked(tmp_path, message):
        (tmp_path / ".lock").write_bytes(content)
        assert holder(tmp_path).pid == 0
        with pytest.raises(ConfigError, match="in use by process 0"):
            locked(tmp_path, message).__enter__()


def test_other_errors_are_raised(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="I/O error"):
        locked(tmp_path, message).__enter__()


def test_a_refused_run_leaves_no_folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / OWNER).write_text("1 a 1\n")
    folder.discard()
    assert not folder.path.exists()
