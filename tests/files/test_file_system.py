"""On a file system that cannot rename folders, a run ends with an error message when it starts."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from accel_rl.files.file_system import check_renames
from accel_rl.text.errors import ConfigError

# A library for LD_PRELOAD in which rename() fails for folders, as on mountpoint-s3.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
int rename(const char *old, const char *new) {
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    struct stat s;
    if (stat(old, &s) == 0 && S_ISDIR(s.st_mode)) { errno = ENOSYS; return -1; }
    return real(old, new);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_run_without_renames_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c", "-ldl"], check=True)
    command = [sys.executable, "-m", "accel_rl", "train", "ppo", "--env", "CartPole-v1", "--engine", "in-process"]
    done = subprocess.run(
        [*command, "--env-steps", "80", "--run-dir", tmp_path / "run"],
        capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(tmp_path / "shim.so")}, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "cannot rename files and folders (Function not implemented)" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_check_leaves_nothing(tmp_path):
    assert check_renames(tmp_path) == "" and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fstype", "device", "warns"),
    [("fuse.gcsfuse", "bucket", True), ("fuse", "mountpoint-s3", True), ("fuse.sshfs", "a:/", False), ("ext4", "", 0)],
)
def test_a_file_system_that_copies_is_named(tmp_path, monkeypatch, fstype, device, warns):
    mount = SimpleNamespace(mountpoint=str(tmp_path), fstype=fstype, device=device)
    root = SimpleNamespace(mountpoint="/", fstype="fuse.s3fs", device="")
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [mount, root])
    (tmp_path / "run").mkdir()
    assert bool(check_renames(tmp_path / "run")) == bool(warns)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="Not a directory"):
        check_renames(tmp_path / "file" if (tmp_path / "file").write_text("x") else tmp_path)
