"""A pytest plugin that writes one line at the end of each test, so that outcomes remain if pytest is killed.

    python -m pytest -p benchmarks.gpu.outcomes --outcomes FILE

Each line of the file is {"test": its node id, "outcome": "passed", "failed", "skipped" or "error", "why": one line}.
"""

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="file to which each test's outcome is appended")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # Workers of pytest-xdist send their reports to the main process.
        config.pluginmanager.register(_Outcomes(Path(config.getoption("--outcomes"))))


class _Outcomes:
    def __init__(self, file: Path):
        self._file = file
        # Test files that cannot be imported. Each worker of pytest-xdist reports this error.
        self._unimported: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._unimported:
            self._unimported.add(report.nodeid)
            self._add(report, "error")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            self._add(report, report.outcome)
        elif report.failed:
            self._add(report, "error")

    def _add(self, report: Any, outcome: str) -> None:
        why = "" if outcome == "passed" else _reason(report.longrepr)
        with self._file.open("a") as f:
            f.write(json.dumps({"test": report.nodeid, "outcome": outcome, "why": why}) + "\n")


def _reason(why: Any) -> str:
    """Return the last line of an error, or the reason of a skipped test."""
    if isinstance(why, tuple):
        return str(why[2])
    crash = getattr(why, "reprcrash", None)
    lines = (crash.message if crash else str(why)).strip().splitlines()
    errors = [line for line in lines if line.startswith("E ")]
    return " ".join((errors[-1:] or lines[:1] or [""])[0].removeprefix("E ").split())[:300]
