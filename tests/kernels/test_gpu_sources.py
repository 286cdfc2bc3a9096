"""Every Triton kernel compiles for two generations of GPUs, on a machine without one."""

import re
import subprocess
import tempfile

import pytest

from accel_rl.kernels.gpu_sources import SOURCES, GpuSource
from tests.test_architecture import FILES, imports, name_of

NEEDS_TRITON = pytest.mark.needs("triton")
MOST_REGISTERS = 64  # of a thread: a multiprocessor then holds 1,024 threads


def compiled(source: GpuSource, capability: int):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, options = source.load()
    assert kernel.arg_names == list(source.signature)
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, kind in enumerate(source.signature.values()) if kind.startswith("*")
    }
    found = ASTSource(kernel, source.signature, constexprs=source.constants, attrs=aligned)
    return triton.compile(found, target=GPUTarget("cuda", capability, 32), options=options)


def resources(ptx: str, capability: int) -> tuple[int, int]:
    """Return (registers of a thread, bytes that it spills to memory), as the assembler reports them."""
    target = re.search(r"\.target (sm_\d+\w?)", ptx).group(1)
    assert target.rstrip("a") == f"sm_{capability}"
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={target}", "-o", "/dev/null", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spilled = re.findall(r"(\d+) bytes spill", report)
    return int(re.findall(r"Used (\d+) registers", report)[0]), sum(map(int, spilled))


@NEEDS_TRITON
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.kernel}-{'-'.join(map(str, s.constants.values()))}")
def test_it_compiles(source, capability, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = compiled(source, capability)
    assert kernel.asm["cubin"]
    registers, spilled = resources(kernel.asm["ptx"], capability)
    assert registers <= MOST_REGISTERS and not spilled


@NEEDS_TRITON
def test_frames_are_copied_16_bytes_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    ptx = compiled(SOURCES[0], 80).asm["ptx"]
    assert re.search(r"ld\.global\.v2\.b64|ld\.global\.v4\.b32", ptx)
    assert re.search(r"st\.global\.v2\.b64|st\.global\.v4\.b32", ptx)
    assert "fma.rn.f32" not in ptx  # it would round once where torch rounds twice


def test_every_kernel_is_listed():
    with_kernels = {name_of(p) for p in FILES if name_of(p).startswith("accel_rl/") and "triton" in imports(p)}
    assert with_kernels == {s.module.replace(".", "/") + ".py" for s in SOURCES}
