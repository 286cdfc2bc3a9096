"""NVRTC and nvcc compile the emulator's GPU kernels without warnings and register spills. Compiled kernels are
cached."""

import builtins
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accel_rl.emulator.device import block_jumps, block_kernel, nvrtc
from accel_rl.emulator.device.block_kernel import blocks_of
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.text.errors import ConfigError, RunError
from tests.emulator.device.blocks_by_nvrtc import measured

NEEDS_NVRTC = pytest.mark.needs("cuda.bindings.nvrtc")
KERNELS = nvrtc.EMULATOR / "device" / "kernels" / "kernels.cu"
CORE = sorted(nvrtc.EMULATOR.glob("core/**/*.h"))

# Maps each kernel to its maximum registers and bytes of stack per thread.
# A multiprocessor can run 12 warps of `step` with 168 registers, and 8 thread blocks of `draw` with 128 registers.
CEILINGS = {"step": (168, 1024), "rows": (64, 0), "draw": (128, 0), "finish": (255, 896), "begin": (168, 0)}

# Limits of the games' own kernels (blocks_by_nvrtc.py). Large games spill registers.
# The code that all games share has 20,000 GPU instructions. A 6507 instruction of a game adds at most 16 of them.
MOST_REGISTERS, MOST_STACK, MOST_SPILLED = 168, 4_096, 16_384
SASS_PER_INSTRUCTION, SASS_OF_FUNCTIONS = 16, 20_000

SMALL = {
    "main.cu": '#include "part.h"\nextern "C" __global__ void twice(float* x) { x[threadIdx.x] *= TWO; }\n',
    "part.h": "#define TWO 2\n",
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Replace the source of the emulator's kernels by a small kernel, use an empty cache folder, and return the source
    files."""
    texts = dict(SMALL)
    monkeypatch.setattr(nvrtc, "sources", lambda: texts)
    monkeypatch.setattr(nvrtc, "MAIN", "main.cu")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return texts


def check_resources(found: dict[str, nvrtc.Resources]) -> None:
    assert set(found) == set(CEILINGS)
    for kernel, (registers, stack) in CEILINGS.items():
        needs = found[kernel]
        assert needs.registers <= registers, (kernel, needs)
        assert needs.stack_bytes <= stack, (kernel, needs)
        assert needs.spill_store_bytes == needs.spill_load_bytes == 0, (kernel, needs)
        assert needs.static_shared_bytes == 0, (kernel, needs)


@NEEDS_NVRTC
# NVRTC compiles the kernels in 20 s for each GPU architecture.
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_kernels_compile_by_nvrtc(architecture: str) -> None:
    result = nvrtc.compile_sources(nvrtc.sources(), nvrtc.MAIN, architecture)
    assert result.code[:4] == b"\x7fELF" and "warning" not in result.log, result.log
    check_resources(nvrtc.parse_log(result.log))


def check_blocks(needs: dict[str, Any]) -> None:
    assert needs["registers"] <= MOST_REGISTERS and needs["stack"] <= MOST_STACK and not needs["warnings"], needs
    assert needs["spill_stores"] + needs["spill_loads"] <= MOST_SPILLED, needs
    assert needs["sass"] <= SASS_OF_FUNCTIONS + SASS_PER_INSTRUCTION * needs["instructions"], needs


@pytest.mark.slow
@NEEDS_NVRTC
@pytest.mark.timeout(600)
@pytest.mark.parametrize("game", ATARI_57)
def test_translated_games_compile_by_nvrtc(game: str) -> None:
    check_blocks(measured(game, "sm_90"))


@NEEDS_NVRTC
@pytest.mark.needs("cuda.bindings.nvjitlink")
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_blocks_are_chosen_by_an_indexed_jump() -> None:
    """The PTX code has an indexed jump with one target for each block and one for all other code, and reads no register
    before it is set."""
    blocks = blocks_of("freeway")
    texts = block_kernel.sources() | {block_kernel.TEXT: blocks.text}
    ptx = nvrtc.compile_sources(texts, block_kernel.MAIN, "compute_90", "-DMARKS").code.decode().rstrip("\0")
    jumps = block_jumps.with_jump(ptx)
    (targets,) = re.findall(r"JUMPS: \.branchtargets (.*);", jumps)
    assert len(set(targets.split(", "))) == len(blocks.starts) + 1
    linked = block_jumps.linked(jumps, "sm_90")
    assert linked.code[:4] == b"\x7fELF"
    assert nvrtc.parse_log(linked.log)[block_kernel.KERNEL].registers <= MOST_REGISTERS


PTX = """.entry step_blocks()
{
	.reg .b32 %r<4>;
	mov.u32 %r1, 7;
	// DISPATCH %r1;
	setp.gt.s32 %p1, %r1, 0;
	@%p1 bra $L__BB0_1;
	bra.uni $L__BB0_2;
$L__BB0_1:
	// CASE 1;
	st.u32 [0], %r2;
	ret;
$L__BB0_2:
	// CASE 0;
	ret;
}
"""


def test_an_indexed_jump_replaces_the_first_branch() -> None:
    jumps = block_jumps.with_jump(PTX)
    first = "\tmin.u32 %jump, %r1, 1;\nJUMPS: .branchtargets $L__BB0_2, $L__BB0_1;\n\tbrx.idx %jump, JUMPS;\n"
    assert jumps == PTX.replace("{\n", "{\n\t.reg .b32 %jump;\n").replace("\t@%p1", first + "\t@%p1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\tbra.uni", "\tmov.u32 %r2, 1;\n\tbra.uni"),  # A block reads %r2.
        ("// CASE 0;", "// CASE 2;"),
        ("\t// DISPATCH %r1;", "\t// DISPATCH %r1;\n\t// DISPATCH %r1;"),
    ],
)
def test_unsafe_jumps_are_refused(old: str, new: str) -> None:
    assert PTX.count(old) == 1
    with pytest.raises(RunError, match=r"undefined|marks"):
        block_jumps.with_jump(PTX.replace(old, new))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile_by_nvcc(architecture: str, tmp_path: Path) -> None:
    flags = ["-std=c++17", f"-arch={architecture}", "-fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v", "-cubin"]
    command = ["nvcc", *flags, "-o", str(tmp_path / "kernels.cubin"), str(KERNELS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_resources(nvrtc.parse_log(done.stderr))


@NEEDS_NVRTC
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["compute_80", "compute_90"])
def test_every_core_header_compiles_alone(architecture: str) -> None:
    """Each header compiles to PTX as a separate file: it includes all headers that it needs, and calls no host
    function."""
    texts = nvrtc.sources()
    for name in texts:
        if name.endswith(".h"):
            alone = {**texts, "alone.cu": f'#include "{name}"\n'}
            log = nvrtc.compile_sources(alone, "alone.cu", architecture).log
            assert "warning" not in log, log


@NEEDS_NVRTC
def test_host_functions_are_refused() -> None:
    wrong = {"main.cu": 'int host(int);\nextern "C" __global__ void k(int* x) { *x = host(1); }\n'}
    with pytest.raises(RunError, match=r"main\.cu"):
        nvrtc.compile_sources(wrong, "main.cu", "sm_90")


def test_sources_name_each_header_once() -> None:
    texts = nvrtc.sources()
    assert {path.relative_to(nvrtc.EMULATOR).as_posix() for path in CORE} < set(texts)
    for name, text in texts.items():
        for included in re.findall(r"#include \"(.+)\"", text):
            assert included in texts, (name, included)


@NEEDS_NVRTC
def test_cubins_are_cached(small: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    first = nvrtc.compiled((9, 0))
    assert capfd.readouterr().err.startswith("compiling the emulator for sm_90 (once, about 30 s) ...")
    assert nvrtc.compiled(90) == first
    assert nvrtc.compiled(90).code == first.code
    assert set(nvrtc.resources(90)) == {"twice"}
    assert capfd.readouterr().err == ""
    assert len(list(nvrtc.cache_folder().iterdir())) == 1


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((8, 0), "sm_80"), ((12, 0), "sm_120"), ((13, 7), "compute_121"), ((8, 8), "compute_87"), (95, "compute_90")],
)
def test_a_gpu_that_nvrtc_does_not_know_gets_ptx(capability, architecture) -> None:
    assert nvrtc.architecture_of(capability, [75, 80, 86, 87, 89, 90, 100, 120, 121]) == architecture


def test_a_gpu_that_is_too_old_for_nvrtc_is_one_line() -> None:
    with pytest.raises(ConfigError, match="compute capability 75 and newer, not 61"):
        nvrtc.architecture_of((6, 1), [75, 80])


@NEEDS_NVRTC
def test_a_newer_gpus_kernels_are_ptx(small: dict[str, str]) -> None:
    code = nvrtc.compiled(999).code
    assert b".target sm_" in code and b"twice" in code and nvrtc.compiled(999).code == code


@NEEDS_NVRTC
def test_a_changed_source_is_compiled(small: dict[str, str]) -> None:
    first = nvrtc.compiled(90).code
    small["part.h"] = "#define TWO 3\n"
    assert nvrtc.compiled(90).code != first
    assert nvrtc.compiled(80).code != first
    assert len(list(nvrtc.cache_folder().iterdir())) == 3


@NEEDS_NVRTC
def test_the_newest_versions_are_kept(small: dict[str, str]) -> None:
    codes = []
    for number in (3, 4, 5):
        small["part.h"] = f"#define TWO {number}\n"
        codes.append(nvrtc.compiled(90).code)
    kept = [file.read_bytes() for file in nvrtc.cache_folder().iterdir()]
    assert [sum(code in content for content in kept) for code in codes] == [0, 1, 1]


@NEEDS_NVRTC
@pytest.mark.parametrize("damage", [b"", b"\0" * 100, b"cut"])
def test_a_damaged_file_is_compiled_again(small: dict[str, str], damage: bytes) -> None:
    first = nvrtc.compiled(90).code
    (file,) = nvrtc.cache_folder().iterdir()
    damaged = file.read_bytes()[:-1] if damage == b"cut" else damage
    file.write_bytes(damaged)
    assert nvrtc.compiled(90).code == first
    assert file.read_bytes() != damaged


@NEEDS_NVRTC
def test_a_cache_folder_that_cannot_be_written_is_no_error(small: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert nvrtc.compiled(90).code == nvrtc.compiled(90).code


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def no_cuda(name: str, *rest: object) -> object:
        if name.startswith("cuda"):
            raise ModuleNotFoundError(name)
        return imported(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_cuda)
    for name in [name for name in sys.modules if name.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"needs NVRTC.*pip install 'cuda-bindings") as found:
        nvrtc.compiled(90)
    assert "\n" not in str(found.value)
