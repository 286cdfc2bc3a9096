"""Faults that are planted into accel_rl in the processes of a trial, to prove that trials find such faults.

Each Python process of a trial runs site/sitecustomize.py, which patches a module of accel_rl when the process imports
the module. A trial with a planted fault uses only a training mode and random faults that can reveal the planted fault.
"""

import math
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MOST = 20
"""Number of trials within which each planted fault must be found."""


@dataclass(frozen=True)
class Planted:
    """A planted fault: `patch` changes the imported `module`. A trial with the planted fault draws its random fault
    from `faults`."""

    patch: Callable[[Any], None]
    module: str
    mode: str
    faults: tuple[str, ...]


PLANTED: dict[str, Planted] = {}


def variables(name: str) -> dict[str, str]:
    """Return the environment variables of a process into which the fault is planted."""
    paths = [str(Path(__file__).with_name("site")), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return {"CHAOS_PLANTED": name, "CHAOS_PLANTED_MODULE": PLANTED[name].module, "PYTHONPATH": path}


def planted(module: str, mode: str, *faults: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function that plants a fault into a module. The function's name is the name of the planted fault."""

    def register(patch: Callable[[Any], None]) -> Callable[[Any], None]:
        PLANTED[patch.__name__.replace("_", "-")] = Planted(patch, f"accel_rl.{module}", mode, faults)
        return patch

    return register


@planted("checkpoints.checkpoint", "lstm", "kill", "go-back", "stop")
def checkpoint_not_written(module: Any) -> None:
    """The run's checkpoints at 400 and 800 env steps are not written."""
    _skip(module, lambda self, steps: steps in (400, 800) and self.folder.parent.name == "run")


@planted("training.saver", "lstm", "stop")
def stop_saves_nothing(module: Any) -> None:
    """A run that ends after a stop request saves no checkpoint."""
    save = module.Saver.save
    module.Saver.save = lambda self: None if self.schedule.interrupted() else save(self)


@planted("training.saver", "lstm", "kill", "go-back", "stop")
def count_off_by_one(module: Any) -> None:
    """The number of updates is too large by 1 in a resumed run."""

    def change(self: Any) -> None:
        self.learner.updates += 1

    _after(module.Saver, "restore", change)


@planted("samplers.sampler", "lstm", "kill", "go-back", "stop")
def generator_not_restored(module: Any) -> None:
    """A resumed run samples actions with the random numbers of the run's beginning."""
    _after(module.Sampler, "load_state_dict", lambda self: self._uniform.manual_seed(0))


@planted("samplers.in_process", "lstm", "kill", "go-back", "stop")
def environments_exchanged(module: Any) -> None:
    """A resume restores the environments in the reverse order."""
    restore = module.InProcessEngine.set_state
    module.InProcessEngine.set_state = lambda self, states: restore(self, states[::-1])


@planted("checkpoints.segment_store", "rainbow", "kill", "go-back", "stop")
def segment_dropped(module: Any) -> None:
    """A resumed run reads zeros instead of one segment of the replay."""
    read = module.SegmentStore._read
    module.SegmentStore._read = lambda *args: {name: data.zero_() for name, data in read(*args).items()}


@planted("metrics.sinks", "lstm", "kill", "go-back", "stop")
def row_lost(module: Any) -> None:
    """A resume loses the last row of metrics.csv before the checkpoint."""
    build = module.CsvSink.__init__
    module.CsvSink.__init__ = lambda self, path, rows=None: build(self, path, rows and rows - 1)


@planted("training.saver", "lstm", "kill", "go-back", "stop")
def evaluation_repeated(module: Any) -> None:
    """A resumed run repeats the evaluation that was made before its checkpoint."""

    def change(self: Any) -> None:
        self.counters.evaluated_at = 0

    _after(module.Saver, "restore", change)


@planted("training.stored_agents", "lstm", "kill", "go-back", "stop")
def best_score_forgotten(module: Any) -> None:
    """A resumed run forgets the score of its best network."""
    module.BestAgent.score = property(lambda self: -math.inf if self._score is None else self._score)


@planted("training.callback", "lstm", "kill", "go-back", "stop")
def callback_lost(module: Any) -> None:
    """Callbacks of a resumed run are not called for evaluations."""
    call = module.Callbacks.__call__

    def without_evaluations(self: Any, method: str, *args: Any) -> None:
        if method == "on_start":
            self.is_resumed = self.training.env_steps > 0
        if method != "on_evaluation" or not self.is_resumed:
            call(self, method, *args)

    module.Callbacks.__call__ = without_evaluations


@planted("checkpoints.checkpoint", "lstm", "kill", "go-back", "stop")
def older_checkpoint_resumed(module: Any) -> None:
    """A resume continues from the second-newest checkpoint."""
    latest = module.Checkpoints.load_latest

    def load_older(self: Any) -> Any:
        steps = self.steps()
        return (steps[-2], module.load(self.path(steps[-2]))) if len(steps) > 1 else latest(self)

    module.Checkpoints.load_latest = load_older


@planted("checkpoints.checkpoint", "lstm", "kill", "go-back", "stop")
def file_outside_removed(module: Any) -> None:
    """A resume also removes unused segment files in the folders beside the run folder."""

    def remove(self: Any) -> None:
        for path in self.folder.parent.parent.glob("*/rows-*.safetensors"):
            path.unlink()

    _after(module.Checkpoints, "clean", remove)


@planted("training.trainer", "lstm", "kill", "go-back", "stop")
def process_left(module: Any) -> None:
    """A run leaves a process behind."""
    command = ["sleep", "600"]
    _after(module.Trainer, "_close", lambda self: subprocess.Popen(command, start_new_session=True))


@planted("samplers.workers.pool", "ppo", "kill-worker")
def second_replacement_hangs(module: Any) -> None:
    """The second replacement of a dead worker process never ends."""
    replace, deaths = module.WorkerPool._on_death, []

    def hang(*args: Any, **options: Any) -> None:
        deaths.append(args)
        time.sleep(1e6 * (len(deaths) == 2))
        replace(*args, **options)

    module.WorkerPool._on_death = hang


@planted("training.signals", "ppo", "stop-worker")
def stop_waits_for_worker(module: Any) -> None:
    """After a stop request, a run waits for a worker process as long as without the request."""
    module.obey_stop = lambda request: None


@planted("ranks.sync_context", "ranks", "kill", "kill-rank", "stop")
def state_of_another_rank(module: Any) -> None:
    """Each rank restores the state of rank 0."""
    load = module.load
    module.load = lambda path: load(
        path.parents[3] / "checkpoints" / path.name if path.parents[2].name == "ranks" else path
    )


@planted("checkpoints.checkpoint", "ranks", "kill", "kill-rank", "stop")
def part_of_rank_missing(module: Any) -> None:
    """Rank 1 does not write its part of the checkpoint at 800 env steps."""
    _skip(module, lambda self, steps: steps == 800 and "ranks" in self.folder.parts)


@planted("checkpoints.checkpoint", "lstm", "damage")
def damage_not_detected(module: Any) -> None:
    """The checksums of a checkpoint's files are not compared."""

    class Equal(str):
        __ne__ = lambda self, other: False  # noqa: E731

    read = module._read_manifest
    module._read_manifest = lambda path: {**read(path), "sha256": dict.fromkeys(module._FILES, Equal())}


@planted("files.durable_files", "lstm", "power")
def checkpoint_not_synced(module: Any) -> None:
    """The files of a checkpoint are not synced to the disk."""
    module.write_synced = lambda file, data: file.write_bytes(data) and None
    module.sync_folder = lambda folder: None


@planted("files.folder_lock", "lstm", "two")
def folder_not_locked(module: Any) -> None:
    """Two processes can train in the same run folder."""
    module.fcntl = SimpleNamespace(LOCK_EX=0, LOCK_NB=0, flock=lambda *args: None)


@planted("files.folder_lock", "lstm", "no-locks")
def owner_ignored(module: Any) -> None:
    """On a file system without locks, two processes can train in the same run folder."""
    module._claim = lambda folder, message: None


@planted("run.run_time", "lstm", "clock")
def elapsed_by_time_of_day(module: Any) -> None:
    """The elapsed time of a run is measured by the time of day instead of a monotonic clock."""
    module.time = SimpleNamespace(monotonic=time.time)


@planted("checkpoints.checkpoint", "device", "memory")
def checkpoint_not_written_before_memory_is_full(module: Any) -> None:
    """The run's checkpoints at 400 and 800 env steps are not written."""
    checkpoint_not_written(module)


@planted("gorila.driver", "gorila", "gorila")
def driver_saves_only_once(module: Any) -> None:
    """The driver of a run with a parameter server saves its second checkpoint only when the run ends."""
    save = module.Driver.save
    module.Driver.save = lambda self: None if self.counters.saved_at and not self._done() else save(self)


def _skip(module: Any, condition: Callable[[Any, int], bool]) -> None:
    """Let `Checkpoints.save` write no checkpoint if `condition(checkpoints, env steps)` is true."""
    save = module.Checkpoints.save
    module.Checkpoints.save = lambda self, steps, *rest: (
        self.path(steps) if condition(self, steps) else save(self, steps, *rest)
    )


def _after(kind: type, method: str, change: Callable[[Any], object]) -> None:
    """Call `change(object)` after each call of the object's method."""
    function = getattr(kind, method)

    def changed(self: Any, *args: Any) -> Any:
        result = function(self, *args)
        change(self)
        return result

    setattr(kind, method, changed)
