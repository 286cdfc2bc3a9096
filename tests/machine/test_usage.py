"""CPU time of processes, and energy from fake RAPL counters."""

import subprocess
import sys
import time

import pytest

from accel_rl.machine.usage import PackageEnergy, cpu_seconds

BUSY = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"


def test_cpu_time_includes_running_and_finished_children():
    before = cpu_seconds()
    subprocess.run([sys.executable, "-S", "-c", BUSY], check=True)
    finished = cpu_seconds()
    assert finished - before > 0.19
    child = subprocess.Popen([sys.executable, "-S", "-c", BUSY + "time.sleep(60)"])
    try:
        deadline = time.monotonic() + 30
        while cpu_seconds() - finished < 0.19:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    assert cpu_seconds() - finished > 0.19


def write(folder, package, microjoules):
    here = folder / f"intel-rapl:{package}"
    here.mkdir(exist_ok=True)
    (here / "energy_uj").write_text(f"{microjoules}\n")
    (here / "max_energy_range_uj").write_text("9999999\n")


def test_energy_is_summed_over_packages_and_wraps_around(tmp_path):
    write(tmp_path, "0", 1_000_000)
    write(tmp_path, "1", 9_000_000)
    write(tmp_path, "0:0", 5)  # Domain 0:0 is a part of package 0, whose energy must not be counted twice.
    energy = PackageEnergy(tmp_path)
    assert energy.joules() == 0
    write(tmp_path, "0", 3_000_000)
    write(tmp_path, "1", 500_000)
    write(tmp_path, "0:0", 7_000_000)
    assert energy.joules() == pytest.approx(2.0 + 1.5)
    assert energy.joules() == pytest.approx(3.5)


def test_without_rapl_the_energy_is_unknown(tmp_path):
    assert PackageEnergy(tmp_path).joules() is None
    write(tmp_path, "0", 1)
    energy = PackageEnergy(tmp_path)
    (tmp_path / "intel-rapl:0/energy_uj").unlink()
    assert energy.joules() is None
