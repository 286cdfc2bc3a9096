"""If the system's limits are exhausted, the error is one line that names the limit. Errors of other kinds are printed
with a traceback."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from accel_rl.text.errors import ended


def raising(error):
    def run(argv):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u, or pids.max"),
        (RuntimeError("can't start new thread"), "ulimit -u, or pids.max"),
        (OSError(errno.ENOSYS, "Function not implemented"), "Function not implemented"),
        (OSError(errno.EPERM, "Operation not permitted", "a file"), "Operation not permitted: a file"),
        (MemoryError(), "Cannot allocate memory (ulimit -v"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "ulimit -v"),
    ],
)
def test_a_limit_is_one_line(error, words, capsys):
    assert ended("accel-rl", raising(error), []) == 1
    err = capsys.readouterr().err
    assert words in err and err.startswith("accel-rl: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes differ"), ImportError("no module"), OSError(errno.EBADF, "bad")]
)
def test_other_errors_are_raised(error):
    with pytest.raises(type(error)):
        ended("accel-rl", raising(error), [])


def test_too_little_address_space():
    """The test sets ulimit -v to 0.6 GB, which is too little to load torch."""
    limit = 600_000_000
    done = subprocess.run(
        [sys.executable, "-m", "accel_rl", "train", "ppo", "--game", "pong", "--env-steps", "100"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True, text=True, timeout=100, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "ulimit -v" in done.stderr
