import contextlib
import os
import subprocess
import sys

import psutil

from accel_rl.processes.guard import Guard, children_killed
from tests.integration.runs import wait_for


def sleeping(variables=None, **options) -> psutil.Process:
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, **(variables or {})}, **options)
    return psutil.Process(process.pid)


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def ends(process: psutil.Process) -> bool:
    """Wait up to 5 s for the end of a killed process."""
    wait_for(lambda: has_ended(process), 5)
    return True


def test_processes_are_killed_by_name_and_at_the_end():
    guard = Guard()
    one, daemon = sleeping(guard.variables("1")), sleeping(guard.variables("12"), start_new_session=True)
    other = sleeping()
    try:
        guard.kill("1")
        assert ends(one) and not has_ended(daemon)
        guard.close()
        assert ends(daemon) and not has_ended(other)
    finally:
        other.kill()


def test_processes_end_with_a_killed_main_process():
    program = (
        "import os, subprocess\n"
        "from accel_rl.processes.guard import Guard\n"
        "guard = Guard()\n"
        "print(subprocess.Popen(['sleep', '600'], env={**os.environ, **guard.variables('0')}, stdout=-3).pid)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -9
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(10)


def test_programs_of_a_block_are_killed():
    with children_killed():
        process = sleeping()
        assert not has_ended(process)
    assert ends(process)
