"""The emulator's AVX-512 and AVX2 functions compute the same results as its portable functions (forms.cpp)."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_wide_forms_equal_the_portable_ones(tmp_path: Path) -> None:
    program = tmp_path / "forms"
    source = Path(__file__).parent / "forms.cpp"
    subprocess.run(["g++", "-std=c++17", "-O1", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    if not done.stdout:
        pytest.skip("neither AVX-512 nor AVX2 here")
