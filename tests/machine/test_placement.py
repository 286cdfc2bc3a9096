"""Placement of processes on the cores that affinity masks and cgroup quotas allow. Only tests with "real" in their
names set real affinity masks. Cgroup folders are always fake."""

import os
import shutil
import warnings
from functools import partial

import pytest

from accel_rl.machine import hardware
from accel_rl.machine.placement import Placement, gpu_of_rank, place_processes, share_of_cores
from accel_rl.text import notes
from accel_rl.text.errors import ConfigError
from tests.machine.test_hardware import cgroup, in_process, linux


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(notes, "_said", set())


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """machine(cores, quota) fakes a machine that allows `cores`, with the cgroup v2 quota `quota` unless it is None."""
    real = hardware.cgroup_cpus

    def make(cores: set[int], quota: str | None = None) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores, raising=False)
        proc = cgroup(tmp_path, "0::/job\n", {"job/cpu.max": quota} if quota else {})
        monkeypatch.setattr(hardware, "cgroup_cpus", partial(real, tmp_path / "fs", proc))

    return make


@pytest.mark.parametrize(
    ("quota", "workers"),
    [(None, 8), ("50000 100000", 1), ("100000 100000", 1), ("150000 100000", 2), ("300000 100000", 3)]
    + [("10000 100000", 1), ("2000000 100000", 8), ("max 100000", 8)],
)
def test_workers_follow_the_quota(machine, quota, workers):
    machine(set(range(8)), quota)
    placement = place_processes()
    assert placement.workers == workers
    assert placement.worker_cores == tuple(range(workers)) == placement.server_cores
    assert placement.torch_threads == workers


def test_only_allowed_cores_are_used(machine):
    machine({9, 3, 5})
    placement = place_processes()
    assert placement.worker_cores == (3, 5, 9) and placement.server_cores == (3, 5, 9)
    assert (placement.workers, placement.torch_threads, placement.device) == (3, 3, "cpu")


def test_one_core(machine):
    machine({7})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for device in ("cpu", "cuda", "cuda:1"):
            assert place_processes(device=device) == Placement((7,), (7,), 1, device)


def test_a_gpu_keeps_the_first_core(machine):
    machine({2, 4, 6, 8})
    placement = place_processes(device="cuda")
    assert placement.server_cores == (2,) and placement.worker_cores == (4, 6, 8)
    assert placement.torch_threads == 1
    machine({2, 4, 6, 8}, "200000 100000")
    placement = place_processes(device="cuda:0")
    assert placement.server_cores == (2,) and placement.worker_cores == (4,)


def test_explicit_cores_beat_the_quota_and_keep_their_order(machine):
    machine({0, 1, 2, 3}, "100000 100000")
    assert place_processes(cores=[3, 1, 3]).worker_cores == (3, 1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cores": [0, 5]}, ("5", "0-2", "--sampler.cores")),
        ({"cores": []}, ("--sampler.cores", "0-2")),
        ({"workers": 0}, ("--sampler.workers 0", "at least 1")),
        ({"torch_threads": 0}, ("--torch-threads 0", "at least 1")),
    ],
)
def test_impossible_settings_are_one_line(machine, given, says):
    machine({0, 1, 2})
    with pytest.raises(ConfigError) as e:
        place_processes(**given)
    assert "\n" not in str(e.value) and all(s in str(e.value) for s in says), str(e.value)


def test_more_workers_than_cores_share_them_and_warn_once(machine):
    machine({4, 5})
    with pytest.warns(UserWarning, match="5 workers share 2 cores"):
        placement = place_processes(workers=5)
    assert placement.worker_cores == (4, 5, 4, 5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place_processes(workers=5) == placement
        assert place_processes(workers=2).worker_cores == (4, 5)
        assert place_processes(workers=1, torch_threads=3) == Placement((4,), (4, 5), 3, "cpu")


PRINT_PLAN = """
from accel_rl.machine.placement import place_processes
p = place_processes()
print(json.dumps([hardware.allowed_cores(), p.worker_cores, p.server_cores, p.torch_threads]))
"""


@linux
def test_a_real_mask_is_obeyed():
    """The affinity mask has only the last core, and is set by the process itself or by the program taskset."""
    core = max(os.sched_getaffinity(0))
    want = [[core], [core], [core], 1]
    assert in_process(f"os.sched_setaffinity(0, [{core}])" + PRINT_PLAN) == [want]
    if shutil.which("taskset"):
        assert in_process(PRINT_PLAN, "taskset", "-c", str(core)) == [want]


def test_ranks_share_the_cores_evenly():
    assert [share_of_cores(range(8), 4, r) for r in range(4)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [share_of_cores(range(5), 2, r) for r in range(2)] == [(0, 1), (2, 3, 4)]
    assert [share_of_cores((3, 7), 5, r) for r in range(5)] == [(3,), (7,), (3,), (7,), (3,)]


def test_more_ranks_than_gpus_share_them_evenly():
    def gpus(ranks: int, n: int) -> list[int]:
        return [gpu_of_rank(r, ranks, n) for r in range(ranks)]

    assert gpus(4, 2) == [0, 0, 1, 1] and gpus(8, 3) == [0, 0, 0, 1, 1, 1, 2, 2] and gpus(2, 4) == [0, 1]
    assert [gpus(32, 8).count(g) for g in range(8)] == [4] * 8


PRINT_TORCH = "print(json.dumps('torch' in sys.modules))"


def test_planning_loads_no_torch():
    assert in_process("from accel_rl.machine.placement import place_processes\nplace_processes()\n" + PRINT_TORCH) == [
        False
    ]
