"""Sanitizers find no memory errors, undefined behaviour or data races in the compiled kernels (drive.cpp).

The AMX kernels are not tested with sanitizers, because few machines have a CPU with AMX.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not shutil.which("g++"), reason="no g++"),
]


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_kernels_are_clean(sanitizers, tmp_path):
    program = tmp_path / "drive"
    flags = ["-std=c++17", "-O1", "-g", "-pthread", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    source = Path(__file__).parent / "drive.cpp"
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}"
    assert "clean" in done.stdout or "no AVX2" in done.stdout
