"""The main loop of `accel-rl sweep` and `accel-rl launch`: a feeder starts runs in free slots until all runs have
ended, or until Ctrl-C or the deadline."""

import math
import time
from collections.abc import Sequence
from shlex import quote

from accel_rl.parsing.arguments import stdout
from accel_rl.sweeps import idle, mps
from accel_rl.sweeps.deadline import Deadline
from accel_rl.sweeps.feeder import LOOK_S, PATIENCE_S, Feeder
from accel_rl.sweeps.layout import Layout, LoopOptions
from accel_rl.sweeps.packing import Packing
from accel_rl.sweeps.sweep_display import Display, View
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.text import output
from accel_rl.training.signals import StopRequest


def run(
    folder: SweepFolder,
    layout: Layout,
    o: LoopOptions,
    lock: int,
    notes: Sequence[str] = (),
    deadline: Deadline | None = None,
    packing: Packing | None = None,
) -> int:
    """Run the unfinished runs of a locked folder. `lock` is the file descriptor of the folder's lock. Return the exit
    code: 0 if all runs are done or the deadline is over, 1 if a run failed, and 130 after Ctrl-C."""
    if o.idle:
        idle.use_idle_time()
    view, lines = View(folder), list[str]()
    with Display(view) as display, StopRequest() as stop, output.written(display.event, display.event):
        for line in notes:
            display.say(f"note: {line}")
        folder.load_records()
        feeder = Feeder(folder, layout, view.lengths, o.retries, lock)
        if deadline:
            deadline.announce()
        with mps.shared_gpus(layout, display.event, o.mps):
            try:
                while not (feeder.over or stop or (deadline and deadline.over)):
                    if deadline:
                        deadline.step(feeder)
                    feeder.step()
                    if packing:
                        packing.step()
                    display.update()
                    time.sleep(LOOK_S)
            finally:
                feeder.stop(deadline.patience_s if deadline else PATIENCE_S)
        if packing:
            lines = packing.end(deadline.due if deadline and not stop else math.inf)
    for line in (*(deadline.outcome() if deadline else ()), *lines):
        stdout(line)
    return _report(folder, view, stop.exit_code, deadline is not None)


def _report(folder: SweepFolder, view: View, stopped: int, has_deadline: bool) -> int:
    records, path = folder.records, quote(str(folder.path))
    stdout(view.summary(records))
    failed = [name for name, record in records.items() if record.status == "failed"]
    for name in failed:
        stdout(f"  {name} failed: {folder.log(name)}")
    if all(r.status == "done" for r in records.values()):
        if folder.has_report:
            stdout(f"next: accel-rl report {path}")
        return 0
    stdout(f"next: accel-rl {folder.COMMAND} --resume {path}    continue with the remaining runs")
    return stopped or int(bool(failed) or not has_deadline)
