"""The feeder of a sweep starts waiting runs as soon as slots (sets of cores and GPUs) are free, and restarts failed
runs from their checkpoints."""

import logging
import os
import signal
import subprocess
import time
from dataclasses import dataclass

from accel_rl.files.durable_files import open_in_place
from accel_rl.machine.placement import Slot
from accel_rl.machine.visible_gpus import gpu_names
from accel_rl.processes import child
from accel_rl.sweeps.layout import Layout, starts
from accel_rl.sweeps.pinned_run import set_session_nice
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.text.counts import counted

logger = logging.getLogger(__name__)
LOOK_S = 0.2
PATIENCE_S = 60.0  # time for a stopped run to save a checkpoint
BAD_INPUT = 2  # exit code of runs with wrong settings, which are not restarted


@dataclass
class Running:
    name: str
    slot: Slot
    process: subprocess.Popen[bytes]


class Feeder:
    """Assigns slots (sets of cores and GPUs) to the waiting runs of a sweep.

    `runs` maps the name of each run to its length in env steps. Runs that request the most GPUs and cores start first.
    `lock` is the file descriptor of the sweep folder's lock, which every run's process inherits.
    """

    def __init__(
        self,
        folder: SweepFolder,
        layout: Layout,
        runs: dict[str, int],
        retries: int,
        lock: int,
    ):
        self._lock = lock
        self.folder = folder
        self.layout = layout
        self.runs = runs
        self.retries = retries
        self.running: dict[str, Running] = {}
        self.held: set[str] = set()  # waiting runs that must not start now
        # {run that is stopping: (its final status, time of SIGKILL)}
        self._ending: dict[str, tuple[str, float]] = {}
        self.waiting = [name for name, env_steps in runs.items() if not folder.finished(name, env_steps)]
        folder.begin(self.waiting)

    @property
    def over(self) -> bool:
        return not self.running and self.held.issuperset(self.waiting)

    def add(self, name: str, env_steps: int, layout: Layout) -> None:
        """Add a run to the sweep's queue. The sweep's `layout` must contain a slot of the run's size."""
        self.runs[name], self.layout = env_steps, layout
        self.waiting.append(name)

    def end(self, name: str, status: str) -> None:
        """Stop a run early. The run saves a checkpoint first, and its status becomes `status`."""
        if name not in self._ending:
            self._ending[name] = status, time.monotonic() + PATIENCE_S
            self._ask_to_stop(self.running[name].process)

    def step(self) -> None:
        """Record which runs have ended, and start waiting runs in free slots."""
        for name, (_, deadline) in self._ending.items():
            if time.monotonic() > deadline:
                self.folder.signal(self.running[name].process, signal.SIGKILL)
        for name, running in list(self.running.items()):
            if (code := running.process.poll()) is not None:
                del self.running[name]
                self._ended(name, code)
        in_use = [running.slot for running in self.running.values()]
        ready = [name for name in self.waiting if name not in self.held]
        for name, slot in starts(ready, self.layout.sizes, self.layout.slots, in_use):
            self.waiting.remove(name)
            self._start(slot, name)

    def _start(self, slot: Slot, name: str) -> None:
        variables = {
            **os.environ,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # A sweep numbers GPUs by their PCI bus.
            "CUDA_VISIBLE_DEVICES": gpu_names(slot.gpus),
            "WANDB_RUN_GROUP": os.environ.get("WANDB_RUN_GROUP", self.folder.path.name),
        }
        cores = ",".join(map(str, slot.cores))
        words = self.folder.command(name, slot.cores)
        command = child.command("accel_rl.sweeps.pinned_run", str(os.getpid()), cores, *words)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with open(open_in_place(self.folder.log(name), flags), "ab") as log:
            # Each run has a session of its own, so that Ctrl-C interrupts only the sweep, which then stops its runs.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=child.environment(variables),
                pass_fds=(self._lock,),
                start_new_session=True,
            )
        self.running[name] = Running(name, slot, process)
        attempts = self.folder.records[name].attempts + 1
        self.folder.note(
            name,
            status="running",
            slot=str(slot),
            pid=process.pid,
            attempts=attempts,
            started=time.time(),
            exit_code=None,
        )

    def _ended(self, name: str, code: int) -> None:
        record = self.folder.records[name]
        finished = self.folder.finished(name, self.runs[name], code)
        ended = {"exit_code": code, "pid": None, "slot": None, "ended": time.time()}
        if name in self._ending:
            status = self._ending.pop(name)[0]
            self.folder.note(name, status="done" if finished and status == "stopped" else status, **ended)
            return
        if finished:
            self.folder.note(name, status="done", **ended)
            if code:
                logger.info(f"{name}: {self._reason(name, code)}, after its last checkpoint: counted as done")
            return
        why = f"{name}: {self._reason(name, code)}"
        if code == BAD_INPUT or record.attempts > self.retries:
            self.folder.note(name, status="failed", **ended)
            logger.info(f"{why}; given up after {record.attempts} attempt{'s' * (record.attempts > 1)}")
        else:
            self.folder.note(name, status="waiting", **ended)
            self.waiting.insert(0, name)
            logger.info(f"{why}; {self.folder.AGAIN} (retry {record.attempts} of {self.retries})")

    def _reason(self, name: str, code: int) -> str:
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        try:
            lines = self.folder.log(name).read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        said = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        return f"exit code {code}: {said}"

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Stop all runs; each run saves a checkpoint. A run that does not end within `patience_s` seconds is killed.
        Ctrl-C kills the remaining runs immediately."""
        for running in self.running.values():
            self._ask_to_stop(running.process)
        if self.running:
            logger.info(f"stopping {counted(len(self.running), 'run')} within {patience_s:.0f} s")
        deadline = time.monotonic() + patience_s
        for running in self.running.values():
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                logger.info(f"{running.name} did not stop within {patience_s:.0f} s and was killed")
                self.folder.signal(running.process, signal.SIGKILL)
            except KeyboardInterrupt:
                deadline = time.monotonic()
                self.folder.signal(running.process, signal.SIGKILL)
            running.process.wait()
        for running in self.running.values():
            done = self.folder.finished(running.name, self.runs[running.name], running.process.returncode)
            self.folder.note(
                running.name,
                status="done" if done else "stopped",
                exit_code=running.process.returncode,
                pid=None,
                slot=None,
                ended=time.time(),
            )
        self.running = {}

    def _ask_to_stop(self, process: "subprocess.Popen[bytes]") -> None:
        """Send SIGTERM to a run, which then saves a checkpoint and stops. The run's priority is raised first, because
        on a busy machine a run with --idle would need minutes to save a checkpoint."""
        set_session_nice(process.pid, 0)
        self.folder.signal(process, signal.SIGTERM)
