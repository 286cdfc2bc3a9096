"""Settings of torch and numpy in a process, and time limits that count a suspension as one second."""

import os
import subprocess
import sys
import time

import pytest

from accel_rl.processes.process import SLICE_S, Patience

SEEN = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from accel_rl.processes.process import tune_torch

class Seen(TorchDispatchMode):
    called = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(args[0], torch.Tensor):
            self.called.add((func.overloadpacket.__name__, out.dtype, args[0].numel()))
        return out

with Seen() as seen:
    tune_torch(2)
for name in ("sqrt", "exp", "log", "tanh", "erfinv"):
    for dtype in (torch.float32, torch.float64):
        assert (name, dtype, 1) in seen.called, (name, dtype)
tiny = torch.full((10_000,), 1e-30)
print(torch.get_num_threads(), float((tiny * tiny * 1e25).max()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_numpy_starts_no_threads():
    """Threads of numpy would make a program crash or hang if the system allows no more threads."""
    code = "ended('x', lambda argv: 0, []); import numpy; print(len(os.listdir('/proc/self/task')))"
    command = [sys.executable, "-c", f"import os; from accel_rl.text.errors import ended; {code}"]
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout == "1\n"


@pytest.mark.slow
def test_functions_of_vectors_are_called_by_one_thread_before_any_other_does():
    done = subprocess.run([sys.executable, "-c", SEEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "0.0"]


TRAINED = """
import sys
from accel_rl.cli.main import main

small = "--engine in-process --envs 4 --torch-threads 1 --evaluation.interval 0 --replay.size 100 --replay.start 40"
assert main(["train", "dqn", "--env", "CartPole-v1", *small.split(), "--env-steps", "200", "--run-dir", "run"]) == 0
slow = [name for name in ("torch._dynamo", "torch._inductor", "matplotlib", "wandb") if name in sys.modules]
assert not slow, slow
"""


@pytest.mark.slow
def test_a_run_does_not_import_what_takes_seconds(tmp_path):
    done = subprocess.run([sys.executable, "-c", TRAINED], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_waits_are_cut_into_slices_and_add_up():
    asked, patience = [], Patience(0.25)
    while not patience.over:
        patience.spend(lambda s: (asked.append(s), time.sleep(0.1)))
    assert len(asked) == 3 and asked[0] == 0.25 and asked[-1] < 0.06
    assert Patience(60).spend(lambda s: s) == SLICE_S


def test_a_long_stop_counts_for_a_second(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    patience = Patience(3.5)

    def stopped(_):
        clock[0] += 1000.0
        return "found"

    assert patience.spend(stopped) == "found"
    assert patience.left == 2.5 and not patience.over
