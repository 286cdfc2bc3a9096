"""A strict time limit for each test.

After the exception that pytest-timeout raises in the test, a `finally` or a `close` may wait for a child process for
ever. A watchdog process kills the processes that the test has started after 1.2 times the limit, and the pytest process
after 1.4 times the limit. pytest-xdist then reports the test, and continues with a new process.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import watchdog

_watchdog: list["subprocess.Popen[bytes]"] = []


def _send(line: str) -> None:
    pipe = _watchdog[0].stdin
    assert pipe is not None
    with contextlib.suppress(BrokenPipeError):
        pipe.write(line.encode() + b"\n")
        pipe.flush()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[None]:
    """Send the test's deadline to the watchdog. pytest-timeout reads the limit from a mark, an option or setup.cfg."""
    more_s = max(watchdog.LEAST_S, 0.2 * settings.timeout)
    if not item.config.getoption("usepdb"):
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        _send(f"{time.monotonic() + settings.timeout + more_s} {more_s} {began}")
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not _watchdog:
        os.environ[watchdog.MARK] = str(os.getpid())
        command = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid())]
        with item.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            # In a separate session, the watchdog does not get signals that are sent to the process group.
            _watchdog.append(subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", start_new_session=True))
    try:
        return (yield)
    finally:
        _send("")


def pytest_enter_pdb() -> None:
    _send("")
