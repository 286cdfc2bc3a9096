"""The folder of `accel-rl launch`."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from accel_rl.sweeps.sweep_folder import SweepFolder


class ScriptFolder(SweepFolder):
    """A folder of scripts, which have no settings, checkpoints or length in env steps. `sweep.json` has the words of
    each run's command."""

    COMMAND = "launch"
    AGAIN = "started again"
    has_report = False

    def command(self, name: str, cores: Sequence[int]) -> list[str]:
        return list(self.plan["commands"][name])

    def signal(self, process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
        """The script's child processes get the signal too. Each script has its own session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def env_steps(self, name: str) -> int:
        return 0

    def finished(self, name: str, env_steps: int, exit_code: int | None = None) -> bool:
        return exit_code == 0 or self.records[name].status == "done"


def opened(path: Path) -> SweepFolder:
    """The folder of a sweep, or of scripts. Raises ConfigError."""
    folder = SweepFolder(path)
    return ScriptFolder(path) if "script" in folder.plan else folder
