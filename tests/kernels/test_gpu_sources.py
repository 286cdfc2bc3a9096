"""Triton compiles every Triton kernel of accel_rl for two generations of GPUs, on a machine without a GPU.

The kernels are listed in SOURCES, with types of arguments as in training runs.
"""

import importlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.marks import slow
from tests.test_architecture import FILES, imports, name_of

NEEDS_TRITON = pytest.mark.needs("triton")
MOST_REGISTERS = 64  # With 64 registers per thread, a GPU's multiprocessor runs 1,024 threads.


@dataclass(frozen=True)
class GpuSource:
    """A Triton kernel with the types and constants of its arguments.

    The dict `signature` has Triton's type of each argument in order, such as "*u8" or "i32", or "constexpr" for the
    arguments in `constants`.
    """

    module: str
    kernel: str
    signature: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)

    def load(self) -> tuple[Any, dict[str, Any]]:
        """Import the kernel, and return the kernel and its launch options. Requires Triton."""
        module = importlib.import_module(self.module)
        return getattr(module, self.kernel), module.OPTIONS


def _gather(word: str, words: int, stack: int, steps: int, action: str = "*u8") -> GpuSource:
    pointers = {
        "frames": word, "finals": word, "age": "*u8", "action": action, "reward": "*fp32", "flags": "*u8",
        "final": "*i32", "cell": "*i64", "obs_tm1": word, "obs_t": word, "r_t": "*fp32", "discount_t": "*fp32",
        "a_tm1": "*i64",
    }  # fmt: skip
    constants = {"STACK": stack, "STEPS": steps, "CLIPS": True, "WORDS": words, "BLOCK": 1024 if words > 512 else 32}
    numbers = {"size": "i32", "B": "i32", "gamma": "fp32", "clip": "fp32"}
    signature = pointers | numbers | dict.fromkeys(constants, "constexpr")
    return GpuSource("accel_rl.kernels.replay_gather_triton", "gather_kernel", signature, constants)


SOURCES = (
    _gather("*i64", 84 * 84 // 8, stack=4, steps=1),
    _gather("*i64", 104 * 80 // 8, stack=4, steps=3),
    _gather("*i32", 27, stack=1, steps=3, action="*i16"),  # vectors of 27 floats
)


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
    """Assemble the PTX code, and return (registers per thread, bytes spilled to memory)."""
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
@pytest.mark.parametrize("capability", [slow(80), 90])
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
    assert "fma.rn.f32" not in ptx  # Torch rounds the product before it adds, which a fused operation does not.


def test_every_kernel_is_listed():
    with_kernels = {name_of(p) for p in FILES if name_of(p).startswith("accel_rl/") and "triton" in imports(p)}
    assert with_kernels == {s.module.replace(".", "/") + ".py" for s in SOURCES}
