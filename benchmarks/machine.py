"""Description of the machine that is recorded with every figure."""

import os
import time
from typing import Any

from accel_rl.runners.run_folder import versions
from accel_rl.system.hardware import allowed_cores, cgroup_cpus, cpu_name


def machine() -> dict[str, Any]:
    """Return processor, usable cores, load, date and versions."""
    return {
        "cpu": cpu_name(), "cores": allowed_cores(), "cgroup_cpus": cgroup_cpus(), "load": os.getloadavg(),
        "date": time.strftime("%Y-%m-%d"), "versions": versions(),
    }  # fmt: skip


def cpu_ticks() -> tuple[int, int]:
    """Return (all, stolen) clock ticks since boot; the hypervisor gave stolen ticks to other guests."""
    try:
        with open("/proc/stat") as f:
            fields = [int(x) for x in f.readline().split()[1:9]]
    except OSError:
        return 0, 0
    return sum(fields), fields[7]
