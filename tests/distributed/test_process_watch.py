import os
import subprocess
import sys
import time

from accel_rl.distributed.collective import Watch


def test_who_has_ended_is_seen_though_nobody_has_waited_for_it():
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes = [subprocess.Popen(sleeps) for _ in range(2)]
    try:
        watch = Watch({3: processes[0].pid, 5: processes[1].pid})
        assert watch.gone() == []
        processes[1].kill()
        deadline = time.monotonic() + 5
        while not watch.gone():
            assert time.monotonic() < deadline
        assert watch.gone() == [5] == watch.gone()
        assert Watch({3: processes[0].pid}).gone() == []
    finally:
        for p in processes:
            p.kill()
            p.wait()
    assert watch.gone() == [3, 5]


def test_one_that_was_never_there_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert Watch({1: child.pid, 2: os.getpid()}).gone() == [1]
