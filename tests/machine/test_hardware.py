"""Detection of cores and cgroup quotas. Only tests with "real" in their names set real affinity masks. Cgroup folders
are always fake."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from accel_rl.machine import hardware
from accel_rl.text import notes

ROOT = Path(__file__).parents[2]
linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no core affinity here")


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(notes, "_said", set())


def cgroup(tmp_path: Path, proc: str, files: dict[str, str]) -> Path:
    (tmp_path / "fs").mkdir(exist_ok=True)
    for name, text in files.items():
        file = tmp_path / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (tmp_path / "proc").write_text(proc)
    return tmp_path / "proc"


V1 = "12:cpu,cpuacct:/a/b\n11:memory:/elsewhere\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("proc", "files", "want"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000", "cpu.max": "900000 100000"}, 3.0),
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000", "a/cpu.max": "400000 100000"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "200000 50000"}, 4.0),
        ("0::/a\n", {"a/other/cpu.max": "50000 100000", "other/cpu.max": "50000 100000"}, None),
        ("0::/a\n", {"a/cpu.max": "rubbish"}, None),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "150000", "cpu/a/b/cpu.cfs_period_us": "100000"}, 1.5),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, None),
        (
            V1,
            {
                "cpu/a/b/cpu.cfs_quota_us": "800000",
                "cpu/a/b/cpu.cfs_period_us": "100000",
                "cpu/a/cpu.cfs_quota_us": "50000",
                "cpu/a/cpu.cfs_period_us": "100000",
            },
            0.5,
        ),
        # In a container, the files of the container's cgroup lie in the root of the cgroup folders.
        (V1, {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 2.5),
    ],
)
def test_quota_is_the_least_over_the_groups_this_process_is_in(tmp_path, proc, files, want):
    file = cgroup(tmp_path, proc, files)
    assert hardware.cgroup_cpus(tmp_path / "fs", file) == want


STAT = "anon 100\ninactive_file 2000\nactive_file 300\nshmem 50"


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({"b/memory.max": "9000", "b/memory.current": "5000"}, 4000),
        ({"b/memory.max": "9000", "b/memory.current": "5000", "b/memory.stat": STAT}, 6300),
        ({"b/memory.max": "max", "b/memory.current": "5000", "b/memory.stat": STAT}, None),
        ({"b/memory.max": "100", "b/memory.current": "5000", "b/memory.stat": STAT}, 0),
    ],
)
def test_the_files_that_a_cgroup_has_read_are_free_memory(tmp_path, files, want):
    """The kernel can free cached files, so their memory counts as free."""
    file = cgroup(tmp_path, "0::/b\n", files)
    assert hardware.cgroup_memory(tmp_path / "fs", file) == want


def test_no_cgroups_is_no_limit(tmp_path):
    assert hardware.cgroup_cpus(tmp_path / "none", tmp_path / "nothing") is None


def in_process(code: str, *before: str) -> list:
    """Run `code` in a new interpreter, started by the command `before`. Returns the printed JSON lines."""
    done = subprocess.run(
        [*before, sys.executable, "-c", "import json, os, sys\nfrom accel_rl.machine import hardware\n" + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@linux
def test_pin_returns_what_was_really_set():
    core, missing = min(os.sched_getaffinity(0)), 1000
    got = in_process(f"""
import warnings
caught = []
warnings.showwarning = lambda message, *a: caught.append(str(message))
warnings.simplefilter("always")
print(json.dumps([hardware.pin([{core}]), sorted(os.sched_getaffinity(0)), len(caught)]))
print(json.dumps([hardware.pin([{core}, {missing}]), "{missing}" in caught[-1], len(caught)]))
print(json.dumps([hardware.pin([{missing}]), sorted(os.sched_getaffinity(0)), len(caught)]))
""")
    assert got == [[[core], [core], 0], [[core], True, 1], [[], [core], 2]]


def test_a_cpu_is_named_with_its_fastest_vector_instructions(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f avx512_bf16\n\n")
    assert hardware.cpu_name(cpuinfo) == "AMD EPYC with AVX-512"
    cpuinfo.write_text("model name\t: Intel(R) Xeon(R) Processor\nflags\t\t: avx2 avx512f amx_bf16\n")
    assert hardware.cpu_name(cpuinfo) == "Intel(R) Xeon(R) Processor with AMX"
    cpuinfo.write_text("model name\t: Old CPU\nflags\t\t: fpu sse2\n")
    assert hardware.cpu_name(cpuinfo) == "Old CPU"
    assert hardware.cpu_name(tmp_path / "missing") == platform.machine()
