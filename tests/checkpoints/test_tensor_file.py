"""Files of tensors."""

import subprocess
import sys

import pytest

CODE = """
import resource, psutil, torch
from accel_rl.checkpoints.tensor_file import save
tensors = {"x": torch.zeros(8 << 20)}
save({"x": torch.zeros(8)})
limit = psutil.Process().memory_info().vms + (40 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    save(tensors)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no RLIMIT_AS")
def test_too_little_memory_is_an_error_that_does_not_end_the_process():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "Cannot allocate memory\n"), done.stderr[-500:]
