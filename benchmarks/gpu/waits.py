"""Number of the host's waits for the GPU."""

from collections.abc import Callable

import torch

from benchmarks.gpu.bench import Bench

WAITS = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


def host_waits(bench: Bench, work: Callable[[], object]) -> int:
    """Count how often one call of `work` makes the host wait for the device, by the profiler's record of CUDA's calls
    or by the simulated device's count."""
    bench.synchronize()
    if bench.device.startswith("sim"):
        from tests import simulated_device

        with simulated_device.counting() as waits:
            work()
        return sum(waits.values())
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
    return sum(1 for event in profile.events() if event.name in WAITS)
