"""The folder in which `accel-rl launch` runs scripts."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from accel_rl.sweeps.sweep_folder import SweepFolder


class ScriptFolder(SweepFolder):
    """A `SweepFolder` of scripts instead of training runs. Scripts have no settings, no checkpoints and no length in
    env steps. `sweep.json` has the words of each script's command."""

    COMMAND = "launch"
    AGAIN = "started again"
    has_report = False

    def command(self, name: str, cores: Sequence[int]) -> list[str]:
        return list(self.plan["commands"][name])

    def signal(self, process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
        """Send a signal to a script and its child processes, which have a session of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def env_steps(self, name: str) -> int:
        return 0

    def finished(self, name: str, env_steps: int, exit_code: int | None = None) -> bool:
        return exit_code == 0 or self.records[name].status == "done"


def opened(path: Path) -> SweepFolder:
    """Open the folder of a sweep or of scripts. Raises ConfigError."""
    folder = SweepFolder(path)
    return ScriptFolder(path) if "script" in folder.plan else folder
