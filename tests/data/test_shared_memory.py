import os
from pathlib import Path

import numpy as np
import pytest

from accel_rl.data.shared_memory import SharedArrays, address, open_at
from accel_rl.machine import hardware
from accel_rl.machine.hardware import free_memory
from accel_rl.text.errors import ConfigError, RunError

LAYOUT = {"a": ("float32", (3, 5)), "flag": ("bool", (7,)), "frames": ("uint8", (2, 3, 4)), "one": ("int64", ())}


@pytest.fixture
def shared():
    arrays = SharedArrays.create(LAYOUT)
    yield arrays
    if arrays.arrays:
        arrays.close()


def test_arrays_are_as_asked_for(shared):
    assert {k: (str(v.dtype), v.shape) for k, v in shared.arrays.items()} == LAYOUT
    assert all(not v.any() and v.flags.writeable and v.flags.c_contiguous for v in shared.arrays.values())
    assert all(v.ctypes.data % 4096 == 0 for v in shared.arrays.values())
    assert shared.nbytes == 4 * 4096


def test_arrays_do_not_overlap(shared):
    for i, array in enumerate(shared.arrays.values()):
        array.view(np.uint8).fill(0) if array.shape else array.fill(0)
        array.fill(i + 1)
    assert [np.unique(v).tolist() for v in shared.arrays.values()] == [[1.0], [True], [3], [4]]


def test_both_ends_see_the_same_memory(shared):
    other = SharedArrays.attach({k: (d, list(s)) for k, (d, s) in LAYOUT.items()}, os.dup(shared.fd))
    assert other.nbytes == shared.nbytes
    shared["a"][1, 2] = 7.5
    other["frames"][1, 2, 3] = 9
    assert other["a"][1, 2] == 7.5 and shared["frames"][1, 2, 3] == 9
    assert other["a"].sum() == 7.5 and shared["frames"].sum() == 9
    other.close()
    assert shared["a"][1, 2] == 7.5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_another_process_sees_it_too(shared):
    pid = os.fork()
    if pid == 0:
        SharedArrays.attach(LAYOUT, shared.fd)["a"][:] = 3.0
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert (shared["a"] == 3.0).all()


def test_views_outlive_the_descriptor():
    shared = SharedArrays.create(LAYOUT)
    view, fd = shared["a"], shared.fd
    shared.close()
    view[:] = 2.0
    assert view.sum() == 30.0
    with pytest.raises(OSError):
        os.fstat(fd)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc here")
def test_nothing_has_a_name(shared):
    """Shared memory is a memfd without a name in a file system, so that a killed process leaves no file behind."""
    mapped = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if "accel_rl" in line and "memfd" in line
    ]
    assert mapped and all(line.endswith("(deleted)") and "/dev/shm" not in line for line in mapped)
    assert os.fstat(shared.fd).st_nlink == 0
    if Path("/dev/shm").is_dir():
        inodes = {p.stat().st_ino for p in Path("/dev/shm").iterdir() if p.exists()}
        assert os.fstat(shared.fd).st_dev != os.stat("/dev/shm").st_dev or os.fstat(shared.fd).st_ino not in inodes
        assert not any("accel_rl" in p.name for p in Path("/dev/shm").iterdir())


def test_a_child_program_does_not_inherit_it(shared):
    assert not os.get_inheritable(shared.fd)


def test_more_than_there_is_is_one_line():
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match=r"16384\.0 GiB .* GiB of memory are free") as e:
        SharedArrays.create({"frames": ("uint8", (2**44,))})
    assert "\n" not in str(e.value)
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_than_the_cgroup_allows_is_refused(monkeypatch):
    """A request for more shared memory than the cgroup's limit is refused, even if the host has more memory."""
    monkeypatch.setattr(hardware, "cgroup_memory", lambda: 1 << 20)
    SharedArrays.create({"frames": ("uint8", (1 << 20,))}).close()
    with pytest.raises(ConfigError, match="of memory are free"):
        SharedArrays.create({"frames": ("uint8", ((1 << 20) + 1,))})


def test_untouched_pages_take_no_memory():
    size = 1 << 28
    if free_memory() < 2 * size:
        pytest.skip("too little memory")
    shared = SharedArrays.create({"frames": ("uint8", (size,))})
    shared["frames"][12345] = 1
    assert os.fstat(shared.fd).st_blocks * 512 < 1 << 22
    shared.close()


def test_an_open_file_is_found_by_its_address(shared):
    """A process can map the shared memory of another process by the memory's address in /proc. An outdated address is
    reported in one line."""
    where = address(shared.fd)
    other = SharedArrays.attach(LAYOUT, open_at(where))
    other["one"][...] = 5
    assert other.fd != shared.fd and int(shared["one"]) == 5
    other.close()
    path, inode, boot = where.split()
    with pytest.raises(RunError, match="another file"):
        open_at(f"{path} {int(inode) + 1} {boot}")
    with pytest.raises(RunError, match="another machine's"):
        open_at(f"{path} {inode} {boot[::-1]}")
    shared.close()
    with pytest.raises(RunError, match="cannot be opened"):
        open_at(where)
