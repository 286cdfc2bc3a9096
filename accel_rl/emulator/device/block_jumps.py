"""Rewrite compiled code so that one indexed jump chooses the block of a ROM to run, in place of NVRTC's tree of
comparisons.

    | NVRTC -> PTX with a mark at the choice and at each case -> brx.idx to the cases' labels -> nvJitLink -> a cubin

NVRTC's comparisons are unreachable after the jump. The PTX is refused if an unreachable instruction writes a register
that a reachable instruction reads.
"""

import re
from typing import Any

from accel_rl.emulator.device import nvrtc
from accel_rl.text.errors import RunError
from accel_rl.text.notes import say_once

_LABEL = re.compile(r"(\$L__BB\w+):")
_CASE = re.compile(r"// CASE (\d+);")
_DISPATCH = re.compile(r"// DISPATCH (%r\d+);")
_REGISTER = re.compile(r"%[a-z]+\d+")
_WRITES_NOTHING = ("st.", "bra", "ret", "@", "bar.", "call", "{", "}", "//", "brx", ".")


def compile_with_jump(texts: dict[str, str], main: str, architecture: str) -> nvrtc.Compiled:
    """Compile as nvrtc.compile_sources does, but with an indexed jump. If nvJitLink is missing, or the PTX cannot be
    rewritten, the compiled code keeps NVRTC's comparisons."""
    try:
        ptx = nvrtc.compile_sources(texts, main, architecture.replace("sm_", "compute_"), "-DMARKS").code.decode()
        return linked(with_jump(ptx.rstrip("\0")), architecture)
    except (ImportError, RunError) as error:
        say_once(f"blocks are chosen by comparisons: {error}")
        return nvrtc.compile_sources(texts, main, architecture)


def with_jump(ptx: str) -> str:
    """Insert the indexed jump brx.idx into PTX, before the first branch after the mark DISPATCH. Raises RunError if
    reachable instructions would read undefined registers."""
    lines, label, labels = ptx.splitlines(), "", {}
    for line in lines:
        if match := _LABEL.match(line):
            label = match[1]
        if match := _CASE.search(line):
            labels[int(match[1])] = label
    choices = [(n, match[1]) for n, line in enumerate(lines) if (match := _DISPATCH.search(line))]
    if len(choices) != 1 or sorted(labels) != list(range(len(labels))) or len(set(labels.values())) != len(labels):
        raise RunError(f"the marks in the PTX: {len(choices)} choices, {len(labels)} cases")
    ((mark, register),) = choices
    begin = max(n for n in range(mark) if lines[n].startswith("{"))
    branch = next(n for n in range(mark, len(lines)) if "bra" in lines[n])
    end = next(n for n in range(mark, len(lines)) if lines[n].startswith("}"))
    jump = [
        f"\tmin.u32 %jump, {register}, {len(labels) - 1};",
        f"JUMPS: .branchtargets {', '.join(labels[n] for n in range(len(labels)))};",
        "\tbrx.idx %jump, JUMPS;",
    ]
    function = [lines[begin], "\t.reg .b32 %jump;", *lines[begin + 1 : branch], *jump, *lines[branch : end + 1]]
    _check(function)
    return "\n".join([*lines[:begin], *function, *lines[end + 1 :], ""])


def _check(function: list[str]) -> None:
    """Raise RunError if an unreachable instruction writes a register that a reachable instruction reads."""
    reached = _reached(function)
    written: set[str] = set()
    read: set[str] = set()
    for n, line in enumerate(function):
        registers = _REGISTER.findall(line)
        if n in reached:
            read.update(registers)
        elif registers and not line.strip().startswith(_WRITES_NOTHING):
            written.add(registers[0])
    if undefined := written & read:
        raise RunError(f"an indexed jump would leave {len(undefined)} registers undefined, such as {min(undefined)}")


def _reached(function: list[str]) -> set[int]:
    """Return the numbers of the lines of a PTX function that can be reached from its first line."""
    places = {match[1]: n for n, line in enumerate(function) if (match := _LABEL.match(line))}
    result: set[int] = set()
    todo = [0]
    while todo:
        n = todo.pop()
        while n < len(function) and n not in result:
            result.add(n)
            code = function[n].strip()
            if "bra" in code or ".branchtargets" in code:
                todo += [places[label] for label in re.findall(r"\$L__BB\w+", code) if label in places]
            if code.startswith(("bra", "ret", "brx")):
                break
            n += 1
    return result


def linked(ptx: str, architecture: str) -> nvrtc.Compiled:
    """Compile PTX by nvJitLink. Raises ImportError if nvJitLink is not installed, and RunError if it fails."""
    from cuda.bindings import nvjitlink

    options = [f"-arch={architecture}", "-verbose", "-Xptxas=-v", "-fma=0"]
    try:
        link = nvjitlink.create(len(options), options)
    except RuntimeError as error:  # The library is missing.
        raise ImportError(str(error)) from None
    try:
        content = ptx.encode()
        nvjitlink.add_data(link, nvjitlink.InputType.PTX, content, len(content), "step_blocks.ptx")
        nvjitlink.complete(link)
        code = bytearray(nvjitlink.get_linked_cubin_size(link))
        nvjitlink.get_linked_cubin(link, code)
        return nvrtc.Compiled(bytes(code), _log(nvjitlink, link))
    except nvjitlink.nvJitLinkError as error:
        raise RunError(f"nvJitLink: {error}") from None
    finally:
        nvjitlink.destroy(link)


def _log(nvjitlink: Any, link: Any) -> str:
    log = bytearray(nvjitlink.get_info_log_size(link))
    nvjitlink.get_info_log(link, log)
    return log.rstrip(b"\0").decode(errors="replace")
