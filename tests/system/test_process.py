"""Settings of a process that uses torch."""

import subprocess
import sys

SEEN = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from accel_rl.system.process import tune_torch

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


def test_a_run_does_not_import_what_takes_seconds(tmp_path):
    done = subprocess.run([sys.executable, "-c", TRAINED], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
