"""Messages if the compiled extension of the kernels is missing, or was built for another CPU."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from accel_rl.kernels import native
from accel_rl.text import notes


def test_without_the_extension_one_line_says_so(monkeypatch):
    monkeypatch.setattr(native.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    monkeypatch.setattr(notes, "_said", set())
    with pytest.warns(UserWarning, match="are not built") as said:
        assert native.compiled() is None and native.compiled() is None
    assert len(said) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_it_compiles_for_a_cpu_that_is_no_x86():
    pybind11 = pytest.importorskip("pybind11")
    source = Path(native.__file__).parent / "src" / "module.cpp"
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{pybind11.get_include()}"]
    done = subprocess.run(
        ["g++", "-std=c++17", "-DACCEL_PLAIN", "-fsyntax-only", "-Wall", *includes, source],
        capture_output=True,
        text=True,
    )
    assert not done.returncode and not done.stderr, done.stderr


FLOAT32 = ("test_conv2d.py", "test_conv_f32_winograd.py", "test_conv_u8.py", "test_linear_small_batch.py")


@pytest.mark.skipif(native.compiled() is None or native.compiled().vectors != "avx512", reason="no AVX-512 here")
@pytest.mark.slow  # runs four test modules
def test_the_kernels_for_avx2_are_right_too():
    """Run the tests of the AVX-512 kernels again with the AVX2 kernels, on a CPU with AVX-512."""
    files = [str(Path(__file__).parent / name) for name in FLOAT32]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *files],
        env=os.environ | {"ACCEL_RL_VECTORS": "avx2"}, capture_output=True, text=True,
    )  # fmt: skip
    assert not done.returncode and " passed" in done.stdout, done.stdout[-2000:]


@pytest.mark.skipif(native.compiled() is None or not native.compiled().vectors, reason="neither AVX-512 nor AVX2 here")
@pytest.mark.parametrize(("given", "expected"), [("none", ""), ("avx2", "avx2")])
def test_instruction_sets_can_be_excluded(given, expected):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import _native; print(_native.vectors)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(native.compiled().__file__).parent)],
        env=os.environ | {"ACCEL_RL_VECTORS": given}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == expected, done.stderr
