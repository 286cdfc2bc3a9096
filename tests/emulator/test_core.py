"""The headers of the emulator's core: includes, size, and compilation by a CUDA compiler."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.marks import slow

CORE = Path(__file__).parents[2] / "accel_rl" / "emulator" / "core"


def test_core_headers_include_only_each_other() -> None:
    for header in CORE.glob("*.h"):
        for name in re.findall(r"#include\s+(\S+)", header.read_text()):
            assert re.fullmatch(r'"\w+\.h"', name), f"{header.name} includes {name}"
            assert (CORE / name.strip('"')).is_file()


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize("arch", [slow("sm_80"), "sm_90"])
def test_core_compiles_to_ptx(arch: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(
        f'#include "{CORE}/game.h"\n'
        "__global__ void step(accel::State* s, const accel::u8* rom, accel::TiaLog* log, accel::u8* out) {\n"
        "    accel::Console c{*s, accel::rom_of(rom, accel::CART_4K), accel::Picture{nullptr, 34, 210, true}, 290, *log,\n"  # noqa: E501
        "                     false};\n"
        "    accel::set_controllers(*s, 1, accel::JOYSTICKS);\n"
        "    c.run_frame(out, true);\n"
        "}\n"
    )
    # nvcc takes a quarter of the time without optimization.
    flags = ["-std=c++17", f"-arch={arch}", "-ptx", "-Xcicc", "-O0"]
    command = ["nvcc", *flags, "-o", str(tmp_path / "kernel.ptx"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "step" in (tmp_path / "kernel.ptx").read_text()
