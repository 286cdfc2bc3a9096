"""Energy of GPUs, read from a compiled stand-in for NVML. The tests need no GPU."""

import shutil
import subprocess

import pytest

from accel_rl.machine.gpu_energy import GpuEnergy, gpu_id

NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int is_initialized;
int nvmlInit_v2(void) { is_initialized = 1; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) {
    if (!is_initialized || strncmp(uuid, "GPU-", 4)) return 2;  /* NVML_ERROR_INVALID_ARGUMENT */
    *gpu = strdup(uuid);
    return 0;
}
#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
    char path[999];
    snprintf(path, sizeof path, "%s/%s", FOLDER, (char *)gpu);
    FILE *file = fopen(path, "r");
    if (!file) return 3;  /* NVML_ERROR_NOT_SUPPORTED */
    int n = fscanf(file, "%llu", millijoules);
    fclose(file);
    return n == 1 ? 0 : 999;
}
#endif
"""


def compiled(folder, *flags):
    """Compile the stand-in for NVML, which reads its counters from the files GPU-... in `folder`. Returns its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "nvml.c").write_text(NVML)
    library = folder / "libnvidia-ml.so.1"
    words = [compiler, "-shared", "-fPIC", f'-DFOLDER="{folder}"', *flags, "-o", library, folder / "nvml.c"]
    subprocess.run(words, check=True)
    return str(library)


@pytest.fixture
def nvml(tmp_path):
    return compiled(tmp_path)


def test_energy_is_summed_over_the_gpus(nvml, tmp_path):
    beyond_32_bits = 2**40
    (tmp_path / "GPU-a").write_text(str(beyond_32_bits))
    (tmp_path / "GPU-b").write_text("500")
    energy = GpuEnergy(["GPU-a", "GPU-b"], nvml)
    assert energy.joules() == 0
    (tmp_path / "GPU-a").write_text(str(beyond_32_bits + 1_500))
    (tmp_path / "GPU-b").write_text("2500")
    assert energy.joules() == pytest.approx(1.5 + 2.0)
    assert energy.joules() == pytest.approx(3.5)
    (tmp_path / "GPU-b").unlink()
    assert energy.joules() is None


def test_an_energy_that_nvml_does_not_report_is_unknown(nvml, tmp_path):
    (tmp_path / "GPU-a").write_text("1")
    assert GpuEnergy(["GPU-a", "GPU-without-counter"], nvml).joules() is None
    assert GpuEnergy(["MIG-a"], nvml).joules() is None and GpuEnergy([""], nvml).joules() is None
    assert GpuEnergy(["GPU-a"], str(tmp_path / "missing.so")).joules() is None
    (tmp_path / "old").mkdir()
    assert GpuEnergy(["GPU-a"], compiled(tmp_path / "old", "-DOLD")).joules() is None


def test_no_gpu_uses_no_energy(tmp_path):
    assert GpuEnergy([], str(tmp_path / "missing.so")).joules() == 0


def test_a_cpu_has_no_name():
    assert gpu_id("cpu") == ""
