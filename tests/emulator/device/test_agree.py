"""On random programs, GPU lanes compute the same states and pictures as the emulator's plain core (agree.cpp). Planted
faults are found."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("accel_rl.emulator._core")

import accel_rl

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")

# Maps each fault to a correct text of kernels/cpu.h and the wrong text that replaces it.
FAULTS = {
    "carry of a decimal sum": ("carry = signs >> 8 & 1", "carry = signs >> 9 & 1"),
    "address that BRK pushes": ("pc -= stages.extra() == JUMP_PLAIN;", "pc -= 1;"),
    "stack after RTI": ("set_flags(s, ram[++sp & 0x7F])", "set_flags(s, ram[(sp + 1) & 0x7F])"),
    "overflow in PLP": ("v = set << 1;", "v = set;"),
    "zero flag in PHP": ("(nz & 0xFF ? 0 : 2)", "(nz & 0xFF ? 2 : 0)"),
    "bank after a read": ("if (switches) map(s.cartridge);\n            }", "}"),
    "register of a push": ("if (mode == MODE_PUSH) address = sp;", "if (mode == MODE_PUSH) address = sp | 0x80;"),
    "index of (zp,X)": ("mode == MODE_AB || mode == MODE_IX ? 0 : y", "mode == MODE_AB ? 0 : y"),
    "end of the plain ROM": ("(pc & 0x1000 ? plain.high : 0xFFF)", "0xFFF"),
}  # fmt: skip


def agree(folder: Path, programs: int, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    source = root / "tests/emulator/device/agree.cpp"
    subprocess.run(["g++", "-std=c++17", "-O1", str(source), "-o", str(folder / "agree")], check=True)
    return subprocess.run([str(folder / "agree"), str(programs), "1"], capture_output=True, text=True)


@pytest.mark.slow
def test_random_programs_agree(tmp_path: Path) -> None:
    done = agree(tmp_path, 60)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_more_random_programs_agree(tmp_path: Path) -> None:
    done = agree(tmp_path, 4000)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, tmp_path: Path) -> None:
    package = Path(accel_rl.__file__).parent
    shutil.copytree(package / "emulator", tmp_path / "accel_rl/emulator", ignore=shutil.ignore_patterns("*.so", "*.py"))
    shutil.copytree(ROOT / "tests/emulator", tmp_path / "tests/emulator", ignore=shutil.ignore_patterns("*.py"))
    cpu, (line, wrong) = tmp_path / "accel_rl/emulator/device/kernels/cpu.h", FAULTS[fault]
    text = cpu.read_text()
    assert text.count(line) == 1
    cpu.write_text(text.replace(line, wrong))
    done = agree(tmp_path, 1000, tmp_path)
    assert done.returncode == 1 and "step" in done.stdout, done.stdout
