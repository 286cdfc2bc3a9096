"""WorkerProcess, with which the pool of workers controls a worker process, reacts to a stop request."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from accel_rl.processes import process
from accel_rl.samplers.workers.channel import EventFd
from accel_rl.samplers.workers.control import Control
from accel_rl.samplers.workers.messages import Request
from accel_rl.samplers.workers.worker_process import WorkerLost, WorkerProcess


def test_a_stop_request_shortens_a_wait_that_has_begun(monkeypatch):
    """The user stops the run while the sampler waits for a worker process that does not answer."""
    monkeypatch.setattr(process, "STOP_PATIENCE_S", 1.0)
    ours, theirs = socket.socketpair()
    silent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    worker, request = WorkerProcess(0, silent, Control(ours), EventFd()), object()
    stop = threading.Timer(0.5, process.obey_stop, [request])
    stop.start()
    began = time.monotonic()
    try:
        with pytest.raises(WorkerLost):
            worker.ask(Request("get_state"), 60.0)
        assert time.monotonic() - began < 15
    finally:
        stop.join()
        process.stop_obeyed(request)
        silent.kill()
        silent.wait()
        theirs.close()
        ours.close()
