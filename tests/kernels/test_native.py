"""The extension, if it is missing, or built for another CPU."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from accel_rl.kernels import native
from accel_rl.system import hardware


def test_without_the_extension_one_line_says_so(monkeypatch):
    monkeypatch.setattr(native.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    monkeypatch.setattr(hardware, "_said", set())
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
