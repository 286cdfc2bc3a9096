"""The GPU kernels' table of TIA register writes has the effects of `apply_write` in the emulator's plain core
(registers.cpp)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulator.device.test_cuda_on_cpu import compiled, planted

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="no g++")]
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAULTS = {
    "the delay": ("BIT_P0 | BIT_P1, 1);", "BIT_P0 | BIT_P1, 0);"),
    "the registers": ("stores(REFP0 + i, MOTIONS, 3,", "stores(REFP0 + i, MOTIONS, 2,"),
    "the collisions": ("table.of[CXCLR].kind = CLEARS_COLLISIONS;", ""),
    "the objects": (
        "stores(VDELP0 + i, MOTIONS, 0, 26 + i, 1, player);",
        "stores(VDELP0 + i, MOTIONS, 0, 26 + i, 1, 0);",
    ),
    "whether objects change": ("u32(a.ball() != b.ball())", "0"),
    "the active objects": ("(form() == 2 ? 2 : 3)", "2"),
    "the end of a line": ("const u32 stars = (r.stars() & 3) + 1,", "const u32 stars = r.stars() + 1,"),
    "calm": ("return !(field & BLANKS) && !restless();", "return !restless();"),
}


def run(program: Path, rounds: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, str(rounds)], capture_output=True, text=True)


def test_writes_equal_apply_write(tmp_path: Path) -> None:
    done = run(compiled(tmp_path / "registers", *SANITIZERS, "registers.cpp"), 10)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout == "655360 writes\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(tmp_path: Path, fault: str) -> None:
    sources = planted(tmp_path, "device/kernels/registers.h", *FAULTS[fault])
    done = run(compiled(tmp_path / "registers", "registers.cpp", folder=sources), 2)
    assert done.returncode == 1 and done.stdout.startswith(fault), done.stdout
