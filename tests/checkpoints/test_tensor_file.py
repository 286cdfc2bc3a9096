"""Files of tensors."""

import sys

import pytest

from tests.integration.runs import run

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
def test_too_little_memory_is_an_error_that_does_not_end_the_process(tmp_path):
    (tmp_path / "saves.py").write_text(CODE)
    done = run(module="saves.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Cannot allocate memory\n"), done.stderr[-500:]
