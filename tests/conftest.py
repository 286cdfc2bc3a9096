"""Fixtures of all tests."""

import atexit
import gc
import os
import shutil
import site
import tempfile

# OpenMP threads that spin long at barriers would make tests that share two cores a hundred times as slow.
os.environ.setdefault("GOMP_SPINCOUNT", "6000")
# With two processes on two cores, numpy's dot product of 16,384 elements takes 4 ms on two threads, and 10 us on one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Games are not translated to C++, because each compilation takes seconds.
os.environ["ACCEL_RL_TRANSLATE"] = "off"

import subprocess
import sys

import pytest
import torch

from accel_rl.text import output
from tests.time_limit import pytest_enter_pdb, pytest_runtest_protocol, pytest_timeout_set_timer  # noqa: F401  # hooks


def _leave_the_users_folders() -> None:
    """Set a new home folder, also for child processes, so that no test depends on the user's caches and settings."""
    # `pip install --user` has put packages into the old home folder.
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    for name in [*os.environ]:
        if name.startswith(("XDG_", "WANDB_", "HF_", "MPL", "MATPLOTLIB", "TORCHINDUCTOR_", "TRITON_CACHE")):
            del os.environ[name]
    home, process = tempfile.mkdtemp(prefix="accel_rl-home-"), os.getpid()
    # Forked processes must not remove the home folder at their exit.
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(home, ignore_errors=True))
    os.environ["HOME"] = home


if "PYTEST_XDIST_WORKER" not in os.environ:
    _leave_the_users_folders()


@pytest.fixture(autouse=True)
def same_numbers():
    """Seed torch, because some random networks would give ReLU inputs near 0, whose sign depends on rounding."""
    torch.default_generator.manual_seed(0)  # A call of torch.manual_seed takes 3 ms.
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Let pytest-xdist give each of its workers a contiguous part of the tests, so that few workers build the same
    fixtures."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_collection_finish(session):
    """Exclude the collected tests from garbage collections.

    Each training run ends with a garbage collection, which would take half a second if it visited thousands of tests.
    """
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Exclude modules that a test has imported, such as torch's compiler, from garbage collections."""
    if len(sys.modules) > _frozen_modules + 100:
        _freeze()


def _freeze() -> None:
    global _frozen_modules
    gc.collect()
    gc.freeze()
    _frozen_modules = len(sys.modules)


def pytest_runtest_setup(item):
    """Skip a test with the mark `needs` if a needed package is not installed."""
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            pytest.importorskip(package, reason=f"needs {package}: python -m pip install -e '.[test-all]'")


WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.fixture(autouse=True)
def fair_threads():
    """Set torch's number of threads, so that the cores are divided among the workers of pytest-xdist.

    With too many threads, small operations take twice as long.
    """
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // WORKERS))


@pytest.fixture(autouse=True)
def same_cores():
    """After a test, restore the CPU affinity of the process, which some tests change."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def logged():
    """The list of messages that accel_rl's modules log during the test."""
    messages: list[str] = []
    with output.written(messages.append, messages.append):
        yield messages


@pytest.fixture
def warned():
    """The list of warnings that accel_rl's modules log during the test."""
    messages: list[str] = []
    with output.written(lambda line: None, messages.append):
        yield messages


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a file system of a size such as "12m", and returns the folder."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(size):
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
        if subprocess.run(["mount", *options], capture_output=True).returncode:
            pytest.skip("mounting a small file system needs root")
        return disk

    yield mount
    if os.path.ismount(disk):
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def simulated_gpu():
    """Simulate the GPUs `sim:0` and `sim:1`, also in child processes. Yields the package `tests.simulated_device`."""
    from tests import simulated_device

    simulated_device.install()
    gc.collect()  # Finalizers of earlier tests' objects may use the simulated GPU.
    with simulated_device.present(), simulated_device.child_processes():
        simulated_device.reset()
        yield simulated_device
        simulated_device.reset()


@pytest.fixture
def open_trainer(tmp_path):
    """open_trainer(config, context, state) returns a Trainer with a new run folder, whose sampler has started.

    If `opens` is false, the sampler has not started, and the test must run or close the trainer.
    """
    from accel_rl.planning.plan import RankPlan
    from accel_rl.run.run_folder import RunFolder
    from accel_rl.settings.resolved import resolve
    from accel_rl.training.build_trainer import build_trainer
    from accel_rl.training.context import SINGLE_RANK

    def build(config, context=SINGLE_RANK, state=None, opens=True):
        torch.manual_seed(0)
        config = resolve(config)
        folder = RunFolder.create(tmp_path / str(len(built)), config)
        trainer = build_trainer(config, RankPlan.resolve(config), folder, state, context)
        if opens:
            built.append(trainer)
            trainer._open()
        return trainer

    built = []
    yield build
    for trainer in built:
        trainer._close()
