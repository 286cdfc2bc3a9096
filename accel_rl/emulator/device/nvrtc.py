"""Compile the emulator's GPU kernels by NVRTC, which needs neither nvcc nor a GPU.

    | kernels.cu and all headers  ->  NVRTC  ->  code and compile log  ->  a file of the cache folder

The cached file's name contains a hash of sources, flags, NVRTC's version and the GPU's architecture. The cache folder
is $XDG_CACHE_HOME/accel_rl or ~/.cache/accel_rl.
"""

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accel_rl.emulator.rom_compiler import VERSIONS
from accel_rl.files import code_cache
from accel_rl.files.code_cache import cache_folder
from accel_rl.text.errors import ConfigError, RunError

EMULATOR = Path(__file__).parents[1]
MAIN = "device/kernels/kernels.cu"
FLAGS = ("--std=c++17", "--fmad=false", "--ptxas-options=-v")
INSTALL = "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'"

_LENGTH_BYTES = 8


class Compiled(NamedTuple):
    """Kernels compiled for one GPU architecture. `code` is machine code (a cubin), or PTX, which the driver compiles
    for a GPU that is newer than NVRTC."""

    code: bytes
    log: str
    """The compiler's warnings, and the registers and memory that each function uses."""


class Resources(NamedTuple):
    """The registers and bytes of memory that one thread of a kernel uses, including register spills of called
    functions."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int


def version() -> str:
    """Return NVRTC's version, such as 13.0. Raises ConfigError if NVRTC is not installed."""
    return "{}.{}".format(*_version(_nvrtc()))


def resources(capability: tuple[int, int] | int) -> dict[str, Resources]:
    """Return the registers and memory that each kernel uses if it is compiled for a compute capability. Raises
    ConfigError if NVRTC is not installed."""
    return parse_log(compiled(capability).log)


def compiled(capability: tuple[int, int] | int) -> Compiled:
    """Compile the kernels for a compute capability, (9, 0) or 90, or read them from the cache folder. Raises
    ConfigError if NVRTC is not installed."""
    texts = sources()
    return stored("the emulator", "emulator", 30, capability, texts, lambda sm: compile_sources(texts, MAIN, sm))


def stored(
    what: str,
    stem: str,
    seconds: int,
    capability: tuple[int, int] | int,
    content: object,
    compile_for: Callable[[str], Compiled],
) -> Compiled:
    """Read compiled kernels from the cache folder, or compile and store them. The file's name has a hash of `content`,
    the compiler's flags, the architecture and NVRTC's version. Raises ConfigError if NVRTC is not installed."""
    nvrtc = _nvrtc()
    architecture = architecture_of(capability, _checked(nvrtc.nvrtcGetSupportedArchs()))
    file = cache_folder() / f"{stem}-{architecture}-{_key(content, architecture, _version(nvrtc))}"
    reason = code_cache.refusal(file.parent)
    if not reason and (cached := _read(file)) is not None:
        return cached
    if reason:
        print(f"{what} is compiled, but not stored, because {reason}", file=sys.stderr)
    print(f"compiling {what} for {architecture} (once, about {seconds} s) ...", file=sys.stderr, flush=True)
    result = compile_for(architecture)
    if not reason:
        _write(file, result)
    return result


def sources() -> dict[str, str]:
    """Return the texts of kernels.cu and all headers by path, relative to the emulator's folder."""
    paths = [*EMULATOR.glob("core/**/*.h"), *EMULATOR.glob("device/kernels/*")]
    return {
        path.relative_to(EMULATOR).as_posix(): with_rooted_includes(path)
        for path in sorted(paths)
        if path.suffix in (".h", ".cu")
    }


def with_rooted_includes(path: Path) -> str:
    """Return a C++ file's text, in which the path of every #include is made relative to the emulator's folder, because
    NVRTC needs such paths."""

    def rooted(include: re.Match[str]) -> str:
        return f'#include "{(path.parent / include[1]).resolve().relative_to(EMULATOR.resolve()).as_posix()}"'

    return re.sub(r'#include "([^"]+)"', rooted, path.read_text())


def compile_sources(texts: dict[str, str], main: str, architecture: str, *more: str) -> Compiled:
    """Compile the file texts[main], which may include the other files in `texts`. `architecture` is, for example,
    sm_90, or compute_90 for PTX. `more` are further compiler flags. Raises RunError with the compiler's first error."""
    nvrtc = _nvrtc()
    headers = {name: text for name, text in texts.items() if name != main}
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            texts[main].encode(),
            main.encode(),
            len(headers),
            [text.encode() for text in headers.values()],
            [name.encode() for name in headers],
        )
    )
    try:
        flags = [flag.encode() for flag in (*FLAGS, f"--gpu-architecture={architecture}", *more)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        _checked(nvrtc.nvrtcGetProgramLog(program, log))
        text = log.rstrip(b"\0").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            errors = [line for line in text.splitlines() if "error" in line]
            raise RunError(f"NVRTC cannot compile the emulator for {architecture}: {(errors or [str(status)])[0]}")
        if architecture.startswith("compute_"):
            code = b" " * _checked(nvrtc.nvrtcGetPTXSize(program))
            _checked(nvrtc.nvrtcGetPTX(program, code))
        else:
            code = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
            _checked(nvrtc.nvrtcGetCUBIN(program, code))
        return Compiled(code, text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def parse_log(log: str) -> dict[str, Resources]:
    """Return the registers and memory that each kernel uses, parsed from a compile log (ptxas -v)."""
    result = {}
    for kernel, lines in _by_kernel(log):
        sizes = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", lines)]
        registers = re.search(r"Used (\d+) registers", lines)
        # The log has a cumulative stack size only for kernels that call functions.
        cumulative = re.search(r"(\d+) bytes cumulative stack size", lines)
        shared = re.search(r"(\d+) bytes smem", lines)
        result[kernel] = Resources(
            int(registers[1]) if registers else 0,
            int(cumulative[1]) if cumulative else max(sizes[0::3], default=0),
            sum(sizes[1::3]),
            sum(sizes[2::3]),
            int(shared[1]) if shared else 0,
        )
    return result


def _by_kernel(log: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"Compiling entry function '(\w+)'", log)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def architecture_of(capability: tuple[int, int] | int, supported: Sequence[int]) -> str:
    """Return the architecture to compile for, such as sm_90. `supported` lists the compute capabilities that NVRTC
    supports. For a newer GPU, return the newest supported capability below that of the GPU as PTX, such as compute_120.
    Raises ConfigError if the GPU is older than all supported capabilities."""
    number = capability if isinstance(capability, int) else 10 * capability[0] + capability[1]
    if number in supported:
        return f"sm_{number}"
    older = [known for known in supported if known < number]
    if not older:
        raise ConfigError(
            f"the installed NVRTC compiles for compute capability {min(supported)} and newer, not {number}"
        )
    return f"compute_{max(older)}"


def _key(content: object, architecture: str, version: tuple[int, int]) -> str:
    return hashlib.sha256(repr((content, FLAGS, version, architecture)).encode()).hexdigest()[:32]


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        _version(nvrtc)  # The first call of NVRTC loads the library.
    except (ImportError, RuntimeError) as error:
        raise ConfigError(f"the emulator on a GPU needs NVRTC ({type(error).__name__}): {INSTALL}") from None
    return nvrtc


def _version(nvrtc: Any) -> tuple[int, int]:
    _, major, minor = nvrtc.nvrtcVersion()
    return major, minor


def _checked(result: tuple[Any, ...]) -> Any:
    """Return the result of an NVRTC call, or raise RunError if the call failed."""
    status, *values = result
    if int(status):
        raise RunError(f"NVRTC: {status.name}")
    return values[0] if values else None


def _read(file: Path) -> Compiled | None:
    """Return the compiled kernels in a cached file, or None if the file is missing or damaged."""
    content = code_cache.read(file)
    return None if content is None else unpacked(content)


def packed(result: Compiled) -> bytes:
    """Return compiled kernels as the bytes of a cached file."""
    log = result.log.encode()
    return len(log).to_bytes(_LENGTH_BYTES, "little") + log + result.code


def unpacked(content: bytes) -> Compiled:
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    return Compiled(content[end:], content[_LENGTH_BYTES:end].decode())


def _write(file: Path, result: Compiled) -> None:
    """Write compiled kernels to a cached file, if the cache folder is writable, and delete all but the newest VERSIONS
    files."""
    with contextlib.suppress(OSError), code_cache.opened(file.parent, create=True) as cache:
        code_cache.write_in(cache, file, packed(result))
        versions = cache.glob(f"{file.name.rpartition('-')[0]}-*")
        for older in sorted(versions, key=lambda path: path.stat().st_mtime_ns)[:-VERSIONS]:
            older.unlink(missing_ok=True)
