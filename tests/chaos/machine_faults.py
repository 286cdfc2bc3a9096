"""Faults of the machine: the clock jumps, or the memory is full."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import run_files
from tests.chaos.invariants import Violation
from tests.chaos.process_faults import kill
from tests.chaos.trial import Trial
from tests.preloaded import compiled, compiler

HOUR_S, DAY_S = 3_600, 86_400
JUMPS_S = (-400 * DAY_S, -HOUR_S, -2, 2, HOUR_S, 4_000 * DAY_S)
MIB = 1 << 20
CLOCK = Path(__file__).with_name("clock.c")
_HOG = "import sys, time; memory = [b'x' * 2**20 for _ in range(int(sys.argv[1]))]; time.sleep(0.2)"


def clock_jumps(t: Trial) -> None:
    """Let the time of day of the run's processes jump forwards or backwards, also before the killed run is resumed."""
    began, jump = time.monotonic(), t.folder / "clock"
    jump.write_bytes(bytes(8))
    t.environment |= {"LD_PRELOAD": str(compiled(CLOCK, t.folder)), "CHAOS_CLOCK": str(jump)}
    process = t.train()
    for _ in range(t.rng.randint(1, 3)):
        if not t.moment(process):
            break
        seconds = t.rng.choice(JUMPS_S)
        with open(jump, "r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))
        t.hit(f"the time of day is {seconds:+,} s")
        if t.rng.random() < 0.4:
            kill(t, process)
            process = t.resume()
    t.wait(process, (0,))
    t.finish()
    times = run_files.column(t.run, "wall_s")
    if times != sorted(times) or not 0 < times[-1] < time.monotonic() - began:
        raise Violation("wrong", f"wall_s from {min(times):g} to {max(times):g} s in metrics.csv")
    t.wait(t.start("runs", str(t.folder)), (0,))


def can_change_clock() -> str:
    """Return the reason why the time of day of a process cannot be changed, or ""."""
    return "" if shutil.which(compiler()) else f"there is no C compiler {compiler()}"


def out_of_memory(t: Trial) -> None:
    """Let another process fill the memory of the run's container, so that the kernel kills processes of the run."""
    t.same = t.same and not t.mode.workers
    with _container() as group:
        enter = f"echo $$ > {group}/cgroup.procs"
        # The kernel kills processes with the highest oom_score_adj (1000) first.
        t.wrap = ["sh", "-c", f'{enter} && echo 1000 > /proc/self/oom_score_adj && exec "$@"', "-"]
        process = t.train()
        if t.moment(process):
            left, taken = t.rng.randint(1, 16), t.rng.choice((32, 100, 400, 1_000))
            killed = _killed(group)
            (group / _LIMIT).write_text(str(int((group / _USED).read_text()) + left * MIB))
            hog = subprocess.Popen(["sh", "-c", f'{enter} && exec "$@"', "-", sys.executable, "-c", _HOG, str(taken)])
            with contextlib.suppress(subprocess.TimeoutExpired):
                hog.wait(20)
            hog.kill()
            hog.wait()
            (group / _LIMIT).write_text(_UNLIMITED)
            n = _killed(group) - killed
            t.told.append(f"{left} MiB left, {taken} MiB taken, {n} processes killed")
            t.acted = n > 0
        t.wait(process, (0, 1, -9))
        t.wrap = []
        t.finish()


_MEMORY = Path("/sys/fs/cgroup/memory")
_IS_V1 = _MEMORY.is_dir()
_ROOT = _MEMORY if _IS_V1 else _MEMORY.parent
_LIMIT, _USED = ("memory.limit_in_bytes", "memory.usage_in_bytes") if _IS_V1 else ("memory.max", "memory.current")
_UNLIMITED = "-1" if _IS_V1 else "max"


def _killed(group: Path) -> int:
    """Return the number of processes of a group that the kernel has killed, because its memory was full."""
    events = (group / ("memory.oom_control" if _IS_V1 else "memory.events")).read_text().split()
    return int(events[events.index("oom_kill") + 1])


@contextlib.contextmanager
def _container() -> Iterator[Path]:
    """Create a control group (cgroup) that limits memory."""
    group = _ROOT / f"chaos-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        yield group
    finally:
        for _ in range(100):  # rmdir fails while a process of the group lives.
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def can_limit_memory() -> str:
    """Return the reason why the memory of a group of processes cannot be limited, or ""."""
    try:
        with _container() as group:
            _killed(group)
            return "" if (group / _LIMIT).exists() else "cgroups do not limit memory"
    except (OSError, ValueError) as e:
        return f"cgroups cannot be used: {e}"
