"""StalledRanks finds asynchronous ranks that use no CPU time, and ranks that make no progress."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from accel_rl.ranks import shared_counters
from accel_rl.ranks.shared_counters import SharedCounters, StalledRanks
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config

LOOPS = "print(1, flush=True)\nwhile True: pass"


@pytest.fixture
def stalled(monkeypatch):
    """Return (the shared counters of two ranks, the object that finds stalled ranks)."""
    monkeypatch.setattr(shared_counters, "LOOK_S", 0.0)
    config = default_config("a2c")
    config = replace(
        config,
        env=replace(config.env, game="pong"),
        sampler=replace(config.sampler, timeout_s=0.1, start_timeout_s=0.1),
        distributed=replace(config.distributed, timeout_s=0.2),
    )
    counters = SharedCounters(2, 100)
    yield counters, StalledRanks(counters, fill_in(config))
    counters.close()


def found(stalled, pids, seconds=0.5):
    result, deadline = {}, time.monotonic() + seconds
    while not result and time.monotonic() < deadline:
        result = stalled.find(pids)
        time.sleep(0.02)
    return result


def test_a_rank_that_neither_acts_nor_learns_is_found(stalled):
    counters, watch = stalled
    with subprocess.Popen([sys.executable, "-c", LOOPS], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            pids = {0: os.getpid(), 1: process.pid}
            assert not found(watch, pids), "ranks that start"
            for _ in range(10):
                counters.beat(1)
                assert not found(watch, pids, 0.05)
            assert list(found(watch, pids)) == [1]
            counters.rest(1)
            assert not found(watch, pids), "a rank that saves"
            process.send_signal(signal.SIGSTOP)
            assert "used no CPU time for 0.2 s" in found(watch, pids)[1]
        finally:
            process.kill()
