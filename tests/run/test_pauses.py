"""The measured pauses of a process: suspended, competing with other processes for a core, or undisturbed."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, subprocess, sys, time
from accel_rl.run.pauses import Pauses
what, act, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if "idle" in what:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
if "child" in what:
    spin = f"import time; end = time.time() + {seconds}\\nwhile time.time() < end: pass"
    subprocess.Popen([sys.executable, "-S", "-c", spin])
pauses = Pauses()
if "stopped" in what:
    subprocess.Popen(f"sleep 1; kill -STOP {os.getpid()}; sleep 3; kill -CONT {os.getpid()}", shell=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    if act == "sleep":
        time.sleep(0.01)
    elif act == "lock":  # one call that does not release the interpreter's lock
        sum(range(50_000_000))
print(pauses.seconds)
"""
SPIN = "import os\nos.sched_setaffinity(0, {core})\nwhile True: pass"


def paused_s(what, act, seconds, beside=0):
    """Return the paused seconds that a program on one core measures, while `beside` other programs use the same
    core."""
    core = {min(os.sched_getaffinity(0))}
    spin = [sys.executable, "-S", "-c", SPIN.format(core=core)]
    programs = [subprocess.Popen(spin) for _ in range(beside)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, what, act, str(seconds)],
            capture_output=True, text=True, timeout=100, preexec_fn=lambda: os.sched_setaffinity(0, core),
        )  # fmt: skip
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux")
@pytest.mark.parametrize("act", ["sleep", "spin"])
def test_a_stopped_process_pauses(act):
    assert 2.2 < paused_s("stopped", act, 5) <= 3.1


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux")
@pytest.mark.parametrize(("what", "act"), [("idle", "spin"), ("idle, child", "sleep")])
@pytest.mark.slow
def test_a_process_that_gives_way_pauses_while_others_take_its_core(what, act):
    assert paused_s(what, act, 2, beside=1) > 1.2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux")
@pytest.mark.parametrize(
    ("what", "act", "beside"),
    [
        ("", "sleep", 0),
        ("", "lock", 1),
        ("", "spin", 2),
        ("idle, child", "spin", 0),
        ("child", "lock", 1),
    ],
)
def test_waiting_for_an_event_and_sharing_a_core_are_no_pauses(what, act, beside):
    assert paused_s(what, act, 2, beside) == 0
