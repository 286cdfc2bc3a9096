"""Folder locks on file systems without locks, and owners of a lock that have ended."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from accel_rl.files import folder_lock
from accel_rl.files.folder_lock import OWNER, holder, locked
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError


def message(other):
    return f"in use by {other}"


@pytest.fixture(params=[errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def without_locks(request, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_second_process_is_refused(tmp_path, without_locks):
    with locked(tmp_path, message):
        assert holder(tmp_path).pid == os.getpid()
        with pytest.raises(ConfigError, match=rf"in use by process {os.getpid()} .*if it has ended, remove"):
            locked(tmp_path, message).__enter__()
        assert (tmp_path / OWNER).exists()  # The refused second lock does not remove the file OWNER.
    assert holder(tmp_path) is None and not (tmp_path / OWNER).exists()


def test_the_owner_has_ended(tmp_path, without_locks):
    """A process of this host that has ended holds no lock. A later process with the process id of an ended owner does
    not hold the lock, either."""
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
