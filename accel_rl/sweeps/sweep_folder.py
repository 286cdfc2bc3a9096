"""The folder of a sweep, with the sweep's plan, the state of its runs, and the lock of the running sweep.

`sweep.json` contains the grid, the placement options, and the resources that each run requests and is assigned.
`state.json` contains each run's status (waiting, running, done, failed, pruned or stopped), attempts and exit code.
`deadline.json` contains the time at which the sweep ends (--minutes).
`NAME/` is a run's folder, as written by `accel-rl train`, with the run's output in log.txt.
"""

import json
import math
import platform
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from accel_rl.checkpoints.saved_steps import about_model, checkpoint_steps
from accel_rl.files import folder_lock
from accel_rl.files.durable_files import refuse_link, remove_temporaries
from accel_rl.files.folder_lock import Holder
from accel_rl.processes import child
from accel_rl.run.listed_runs import read_progress, updates_in
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.config_file import read_plain
from accel_rl.settings.trust import Trust
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

if TYPE_CHECKING:  # Importing torch would delay `accel-rl status`.
    from accel_rl.settings.train import TrainConfig
    from accel_rl.sweeps.sweep_plan import PlannedRun

DEADLINE = "deadline.json"
PRUNED = "pruned"
"""The status of a run that a search has ended early because of a low score."""


@dataclass(frozen=True)
class Record:
    """The state of one run of a sweep. `slot` names the GPUs or cores of the run's slot."""

    status: str = "waiting"
    attempts: int = 0
    slot: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    started: float | None = None
    ended: float | None = None


class SweepFolder:
    COMMAND = "sweep"
    has_report = True
    AGAIN = "goes on from its last checkpoint"
    """Part of a message: what a run does when it is restarted after a failure."""

    def __init__(self, path: Path):
        self.path = path
        self.records: dict[str, Record] = {}

    # -- contents ------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any]:
        """The contents of sweep.json. Raises ConfigError if the file does not exist."""
        try:
            return dict(json.loads((self.path / "sweep.json").read_text()))
        except FileNotFoundError as e:
            raise ConfigError(f"{self.path} holds no sweep (no sweep.json)") from e
        except (OSError, ValueError) as e:
            raise ConfigError(f"{self.path / 'sweep.json'} is not readable: {e}") from e

    @property
    def names(self) -> list[str]:
        """The names of the runs. Raises ConfigError if a name is a path to outside of the sweep's folder."""
        result = list(self.plan["runs"])
        for name in result:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ConfigError(f"{self.path / 'sweep.json'}: the run {name!r} is outside of the sweep's folder")
        return result

    def run(self, name: str) -> Path:
        return self.path / name

    def log(self, name: str) -> Path:
        return self.path / name / "log.txt"

    def command(self, name: str, cores: Sequence[int]) -> list[str]:
        """Return the command that starts or resumes a run on the given cores, which the run's ranks use in the given
        order. --trust is safe, because the sweep has written or checked the run's settings (`config`)."""
        return child.command("accel_rl", "resume", str(self.run(name)), "--trust", "--cores", *map(str, cores))

    def signal(self, process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
        """Send a signal to a run's process, which then stops its own child processes."""
        process.send_signal(number)

    def config(self, name: str, trust: Trust = False) -> "TrainConfig":
        """Return the configuration with which a run of the sweep was started. Raises ConfigError if it names a user's
        code that is not in `trust`."""
        return RunFolder.open(self.run(name), trust)[1]

    def env_steps(self, name: str) -> int:
        """Return the length of a run in env steps, without importing a user's code."""
        return int(read_plain(self.run(name))["env_steps"])

    def left(self, trust: Trust) -> "dict[str, TrainConfig]":
        """Return {name: configuration} of the sweep's unfinished runs. `trust` is that of `config`."""
        configs = {name: self.config(name, trust) for name in self.names}
        return {name: c for name, c in configs.items() if not self.finished(name, c.env_steps)}

    def saved_at(self, name: str) -> int:
        """Return the number of env steps of a run's newest checkpoint, or 0 without a checkpoint. A finished run that
        was carried from another machine has a network (`ModelFolder`) in place of checkpoints; return the network's
        number of env steps."""
        run = self.run(name)
        if steps := checkpoint_steps(run / "checkpoints"):
            return steps[-1]
        try:
            return int(about_model(run)["env_steps"])
        except ConfigError:
            return 0

    def finished(self, name: str, env_steps: int, exit_code: int | None = None) -> bool:
        """Return whether a run is finished, regardless of its exit code: its newest checkpoint has at least `env_steps`
        env steps or, if the run's length is a number of updates, the last row of metrics.csv has this number of
        updates."""
        steps = self.saved_at(name)
        if not steps:
            return False
        if updates := updates_in(read_plain(self.run(name))):
            last = read_progress(self.run(name))
            return last.updates >= updates and steps >= last.env_steps
        return steps >= env_steps

    # -- beginning ------------------------------------------------------------

    @classmethod
    def new(cls, path: str, name: str) -> Self:
        """Return the folder `path` for a new sweep, by default a folder that is named after the experiment `name`.
        Raises ConfigError if a sweep cannot start in this folder."""
        default = f"runs/{name.rpartition(':')[2]}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = cls(Path(path or default).expanduser())
        folder.check_new()
        return folder

    def check_new(self) -> None:
        """Raise ConfigError if a sweep cannot start in this folder."""
        self.check_free()
        self.check_unwritten()
        RunFolder.check_new(self.path)

    def check_unwritten(self) -> None:
        """Raise ConfigError if the folder contains a sweep."""
        if (self.path / "sweep.json").exists():
            raise ConfigError(
                f"{self.path} already holds a sweep; go on with it: accel-rl sweep --resume {self.path}, or "
                "choose another --out"
            )

    def check_free(self) -> None:
        """Raise ConfigError if a sweep, or a run of a killed sweep, is still running in this folder."""
        if (holder := folder_lock.holder(self.path)) is not None:
            raise ConfigError(self._in_use(holder))

    def _in_use(self, holder: Holder) -> str:
        is_killed = holder.host == platform.node() and not psutil.pid_exists(holder.pid)
        who = "runs of a sweep that was killed, which are about to stop" if is_killed else f"a running sweep ({holder})"
        return f"{self.path} is in use by {who}"

    def create(
        self, runs: "Mapping[str, PlannedRun]", labels: Mapping[str, Mapping[str, str]], placed: Mapping[str, Any]
    ) -> None:
        """Write sweep.json and the configuration of every run before any run starts, so that a killed sweep can be
        resumed. `labels` are the labels of each run in the grid. Raises ConfigError if the folder already contains a
        sweep."""
        self.check_unwritten()
        sizes = {name: self._begun(name, run) for name, run in runs.items()}
        named = {name: dict(labels[name]) for name in runs}
        self.write("sweep.json", {**placed, "created": time.time(), "runs": named, "sizes": sizes})

    def add(self, name: str, run: "PlannedRun", labels: Mapping[str, str]) -> None:
        """Add a run to a sweep that has begun."""
        plan = self.plan
        sizes = {**plan["sizes"], name: self._begun(name, run)}
        self.write("sweep.json", {**plan, "runs": {**plan["runs"], name: dict(labels)}, "sizes": sizes})
        self.records[name] = Record()
        self._save()

    def _begun(self, name: str, run: "PlannedRun") -> dict[str, Any]:
        """Write a run's configuration, and return the run's entry for sweep.json."""
        from accel_rl.settings.resolved import fill_in

        path = self.run(name)
        RunFolder.create(path, replace(fill_in(run.config), run_dir=str(path)))
        return {"asks": {"gpus": run.needs.gpus, "cores": run.needs.cores}, "gets": asdict(run.size)}

    def load_records(self) -> dict[str, Record]:
        try:
            values = json.loads((self.path / "state.json").read_text())
        except (OSError, ValueError):
            values = {}
        self.records = {name: Record(**values.get(name, {})) for name in self.names}
        return self.records

    def begin(self, waiting: Sequence[str]) -> None:
        """Initialise the records of a sweep that starts or is resumed. Runs in `waiting` get the status "waiting".
        All other runs get the status "done", unless they failed or were pruned."""
        for name, record in self.load_records().items():
            ended = record.status if record.status in (PRUNED, "failed") else "done"
            status = "waiting" if name in waiting else ended
            self.records[name] = replace(record, status=status, attempts=0, slot=None, pid=None)
        self._save()

    def note(self, name: str, **changes: Any) -> None:
        """Change fields of the sweep's record of a run, in memory and on disk."""
        self.records[name] = replace(self.records[name], **changes)
        self._save()

    def _save(self) -> None:
        self.write("state.json", {n: asdict(r) for n, r in self.records.items()})

    def write(self, name: str, value: Any) -> None:
        RunFolder(self.path).write_json(name, value)

    def event(self, line: str) -> None:
        RunFolder(self.path).event(line)

    def deadline_s(self) -> float:
        """Return the seconds until the sweep's deadline. The result is infinite without a deadline, or if only an
        earlier command had a deadline."""
        try:
            left_s = float(json.loads((self.path / DEADLINE).read_text())["due"]) - time.time()
        except (OSError, ValueError):
            return math.inf
        return left_s if left_s > 0 else math.inf

    # -- lock ------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the sweep's folder, and remove temporary files that killed processes have left. Runs inherit the lock,
        which is held until the last process has ended. Raises ConfigError if another process holds the lock, or if a
        file that is changed in place is a link."""
        RunFolder(self.path).check_parts()
        for name in self.names if (self.path / "sweep.json").exists() else ():
            refuse_link(self.log(name))
        with folder_lock.locked(self.path, self._in_use) as descriptor:
            remove_temporaries(self.path)
            yield descriptor

    def holder(self) -> int | None:
        """Return the process id of the sweep that is running in this folder, or None."""
        holder = folder_lock.holder(self.path)
        return None if holder is None else holder.pid


def prune(folder: SweepFolder, dry_run: bool = False) -> list[str]:
    """Remove all checkpoints of each finished run except the newest, which contains the network and the run's state.
    Return a line for each pruned run, and a line with the total number of bytes.

    With `dry_run`, nothing is removed. Raises ConfigError if the sweep is running, or if a run's newest checkpoint is
    damaged, before any checkpoint of this run is removed.
    """
    from accel_rl.checkpoints.checkpoint import Checkpoints, load

    folder.check_free()
    lines, total = [], 0
    for name in folder.names:
        run = folder.run(name)
        checkpoints = Checkpoints(run / "checkpoints")
        *earlier, newest = checkpoints.steps() or [0]
        if not earlier or not folder.finished(name, folder.env_steps(name)):
            continue
        load(checkpoints.path(newest))
        n_bytes = sum(_size(checkpoints.path(steps)) for steps in earlier)
        if not dry_run:
            segments = _size(run / "segments")
            checkpoints.remove(earlier)
            n_bytes += segments - _size(run / "segments")
        total += n_bytes
        lines.append(
            f"{name}: {counted(len(earlier), 'checkpoint')} before {newest:,} env steps, {n_bytes / 1e6:.1f} MB"
        )
    end = "would be removed, and the replay's segments that only they have" if dry_run else "removed"
    return [*lines, f"{folder.path}: {counted(len(lines), 'run')}, {total / 1e6:.1f} MB {end}"]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
