"""Controls a process that measures on request. For each number of seconds on stdin, the process measures for this time,
and writes the result as a line of JSON to stdout."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from accel_rl.text.errors import RunError


class Served:
    """A child process that measures on request, and prints "ready" when it can begin."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None):
        self._name = name
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a full pipe would block the process
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        try:
            self._line()
        except RunError:
            self.close()
            raise

    def measure(self, seconds: float) -> float:
        """Request a measurement of the given length, and return the measured rate."""
        self.send(seconds)
        return float(self.receive())

    def send(self, seconds: float) -> None:
        """Request a measurement, without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Return the process's answer to the oldest request, or raise RunError if the process has ended."""
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._process.wait(30)
            self._stderr.seek(0)
            lines = self._stderr.read().strip().splitlines() or ["no message"]
            raise RunError(f"the process of {self._name} ended: {lines[-1]}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()
