"""On random logs of TIA writes, the GPU kernels compute the same TIA states and pictures as the emulator's plain core
on the CPU."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulator.device.test_cuda_on_cpu import compiled, planted
from tests.marks import slow

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Maps a fault to (file of kernels/, correct text, wrong text, difference that pictures.cpp must find).
FAULTS = {
    "a missing search": ("settle.h", "open && changes && !clears", "open && !writes", "collisions"),
    "a search of one line": ("settle.h", "wraps ? WIDTH : end", "end", "collisions"),
    "a search after a change": ("settle.h", "if (r.is_blank() || !has_pixels())", "if (!has_pixels())", "collisions"),
    "collisions are not cleared": ("settle.h", "                collisions = 0;\n", "", "collisions"),
    "rows do not pass": ("settle.h", "end_blank(r, row_clock - LINE_CLOCKS);", "", "registers"),
    "lines end late": ("settle.h", "&& to >= row_end,", "&& to > row_end + 9,", ""),
    "a pair is left out": ("settle.h", "meets(m0, m1, span) << 14", "0", "collisions"),
    "a wrong delay": ("registers.h", "BIT_P0 | BIT_P1, 1);", "BIT_P0 | BIT_P1, 9);", ""),
    "a missing end_line": ("rows.h", "if (row >= 0 && !calm) end_line(r, row_clock);", "", "the observation"),
    "restless rows are not recorded": ("rows.h", "!changes && r.calm()", "!changes", "the observation"),
    "a wrong first write": ("rows.h", "record(row, r, n);", "record(row, r, n + 1);", "the observation"),
    "a lost record": ("rows.h", "word_ < word; word_++, bits_ = 0)", "word_ < word; word_++)", "the observation"),
    "a wrong tap": ("draw.h", "(y & 1 ? 0 : 2) ? 1 : 2", "(y & 1 ? 2 : 0) ? 1 : 2", "the observation"),
    "halfway sums are rounded up": ("draw.h", "if (value * 200 == sum)", "if (false)", "the observation"),
    "no blank of HMOVE": ("draw.h", "r_.field & BLANKS && hmove_blanks_", "false", "the observation"),
    "black is a colour": ("draw.h", "luminance_[0] * 0x01010101u", "luminance_[0]", "the observation"),
    "colours change late": ("draw.h", "if (colours && composed_ > flushed_) return FLUSHES;", "", "the observation"),
    "pixels before a change are lost": ("draw.h", "painted > 0 ?", "painted > 4 ?", "the observation"),
}  # fmt: skip


def run(program: Path, rounds: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, str(rounds)], capture_output=True, text=True)


@pytest.mark.slow  # g++ takes 5 s
def test_pictures_are_equal(tmp_path: Path) -> None:
    done = run(compiled(tmp_path / "pictures", *SANITIZERS, "pictures.cpp"), 2000)
    assert done.returncode == 0 and done.stdout == "4000 pictures\n", done.stdout + done.stderr[-4000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", [slow(fault) for fault in FAULTS])
def test_a_fault_is_found(tmp_path: Path, fault: str) -> None:
    file, old, new, differs = FAULTS[fault]
    sources = planted(tmp_path, f"device/kernels/{file}", old, new)
    done = run(compiled(tmp_path / "pictures", "pictures.cpp", folder=sources), 2000)
    assert done.returncode == 1 and differs in done.stdout, done.stdout
