"""`CapturedActing` lets samplers replay captured inference."""

from collections.abc import Sequence

import torch

from accel_rl.samplers.inference.device_rollouts import DeviceRollouts
from accel_rl.samplers.inference.inference import Acceleration, Act
from accel_rl.speed.captured_inference import CapturedInference
from accel_rl.speed.captured_rollouts import CapturedRollouts
from accel_rl.speed.cuda_graph_inference import CudaGraphInference


class CapturedActing(Acceleration):
    """If an agent allows it, its inference is captured: as a list of kernel calls on a CPU, and as CUDA graphs on a
    GPU."""

    def __init__(self, enabled: bool = True):
        """`enabled` is False if the run has --sampler.no-capture."""
        self._enabled = enabled

    def on_cpu(self, groups: Sequence[slice]) -> CapturedInference:
        return CapturedInference(groups, self._enabled)

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, act: Act) -> CudaGraphInference:
        return CudaGraphInference(groups, gpu, act, self._enabled)

    def player(self, device: torch.device) -> CapturedRollouts:
        return CapturedRollouts(device, self._enabled)
