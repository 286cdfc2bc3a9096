"""Launches the kernels of kernels.cu on the current torch stream of a GPU, so that they run in order with torch's
operations."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from accel_rl.emulator.atari import core
from accel_rl.emulator.device import block_kernel
from accel_rl.emulator.device.nvrtc import compiled, version
from accel_rl.emulator.device.step_arguments import StepArguments
from accel_rl.text.errors import ConfigError, RunError

WARP, DRAWING, BEGINNING = 32, 64, 64  # Numbers of threads per block of the kernels step, draw and begin.
# Number of warps of the kernel `step` per multiprocessor.
# A warp uses 31 KB of local memory (up to 45 KB in a game's own kernel), so only a few warps fit into the cache.
STEP_WARPS = 2
LEAST_LANES = 4  # Minimum number of environments per warp of the kernel `step`.
REJECTED = ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_IMAGE")
OLDEST = (8, 0)  # The lowest compute capability of supported GPUs


def gpu_index(device: torch.device | str) -> int:
    index = torch.device(device).index
    return torch.cuda.current_device() if index is None else index


def check(device: str) -> None:
    """Raise ConfigError unless games can be emulated on the GPU."""
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        raise ConfigError(
            f"{device} has compute capability {capability[0]}.{capability[1]}: Atari on a GPU needs 8.0 or newer"
        )
    version()


@cache
def kernels_of(device: torch.device) -> "CudaKernels":
    """Return the kernels of a GPU, compiled at the first use."""
    return CudaKernels(device)


class CudaKernels:
    """Launches the emulator's kernels on one GPU, and never waits for the GPU. Translated games have their own kernels
    `step_blocks` in place of the kernel `step` of all games."""

    def __init__(self, device: torch.device) -> None:
        from cuda.bindings import driver

        self._driver, self._device = driver, device
        self._properties = torch.cuda.get_device_properties(device)
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()  # synchronize() makes torch create the CUDA context.
            self._context = self._checked(driver.cuCtxGetCurrent())
            self.code = compiled(torch.cuda.get_device_capability(device)).code
            names = ("step", "rows", "draw", "finish", "begin")
            self._kernels = dict(zip(names, self._loaded(self.code, *names), strict=True))
        self.warps = STEP_WARPS * self._properties.multi_processor_count
        """With few environments, a step uses at most this number of warps."""
        self.trials: dict[str, block_kernel.Trial] = {}
        """The trials of loaded kernels, by game. A game's own kernel without a trial is always used."""

    def _loaded(self, code: bytes, *names: str) -> list[Any]:
        module = self._checked(self._driver.cuModuleLoadData(code), "loading the compiled emulator")
        return [self._checked(self._driver.cuModuleGetFunction(module, name.encode())) for name in names]

    def load_blocks(self, game: str) -> None:
        """Load a game's own kernel, unless it was loaded before. Waits until the kernel has been compiled and compared
        with the kernel of all games."""
        if game in self._kernels:
            return
        built = block_kernel.begin(game, gpu_index(self._device)).result()
        if built is None:
            self._kernels[game] = None
            return
        self.load(game, built.compiled.code)
        self.trials[game] = built.trial
        if built.trial.differs:
            print(f"{game} on {self._properties.name}: {built.trial}", file=sys.stderr)

    def load(self, game: str, code: bytes) -> None:
        with self._on_device():
            (self._kernels[game],) = self._loaded(code, block_kernel.KERNEL)

    def has_blocks(self, game: str, lanes: int = WARP) -> bool:
        """Return whether the game's own kernel is loaded, and was at least as fast in its trial with `lanes`
        environments per warp."""
        trial = self.trials.get(game)
        return self._kernels.get(game) is not None and (trial is None or trial.prefers_own(lanes))

    def step(self, a: StepArguments, game: str = "") -> None:
        """Launch the kernel `step`, which plays one agent step, with one thread per environment and one warp per block.
        A small number of environments is spread evenly over two warps per multiprocessor, because a warp with fewer
        lanes diverges less. On an H100, more warps with fewer lanes each were slower. If `game` has its own kernel,
        which was not slower in its trial, this kernel is launched in place of `step`."""
        rom_words = (a.tables.rom_bytes + 5) // 4
        lanes = min(WARP, max(LEAST_LANES, -(-a.envs.n // self.warps)))
        is_translated = self.has_blocks(game, lanes)
        shared = 4 * (rom_words if is_translated else 256 + 2 * rom_words)
        self._launch(game if is_translated else "step", -(-a.envs.n // lanes), WARP, shared, a)

    def draw(self, a: StepArguments) -> None:
        """Launch the kernel `rows`, with one thread per picture, and the kernel `draw`, with one block per environment
        and one warp per picture."""
        self._launch("rows", -(-2 * a.envs.n // WARP), WARP, 0, a)
        self._launch("draw", a.envs.n, DRAWING, core().device.sizes["band"], a)

    def finish(self, a: StepArguments, scratch: Tensor) -> None:
        """Launch the kernel `finish`, in which the plain core repeats the steps that the fast core has given up.
        `scratch` is working memory, [threads, bytes] uint8."""
        self._launch("finish", len(scratch), 1, 0, a, ctypes.c_void_p(scratch.data_ptr()))

    def begin(self, a: StepArguments, all_of_them: bool) -> None:
        """Launch the kernel `begin`, which begins episodes, with one block per environment."""
        self._launch("begin", a.envs.n, BEGINNING, 0, a, ctypes.c_uint32(all_of_them))

    def _launch(self, name: str, blocks: int, threads: int, shared: int, *parameters: Any) -> None:
        addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        stream = torch.cuda.current_stream(self._device).cuda_stream
        shape = (blocks, 1, 1, threads, 1, 1, shared, stream)
        with self._on_device():
            self._checked(
                self._driver.cuLaunchKernel(self._kernels[name], *shape, ctypes.addressof(addresses), 0), name
            )

    @contextlib.contextmanager
    def _on_device(self) -> Iterator[None]:
        with torch.cuda.device(self._device):
            # A new thread has no CUDA context. torch sets no context if the GPU is already the current device.
            if not int(self._checked(self._driver.cuCtxGetCurrent())):
                self._checked(self._driver.cuCtxSetCurrent(self._context))
            yield

    def _checked(self, result: tuple[Any, ...], what: str = "the start") -> Any:
        error, *values = result
        if error != self._driver.CUresult.CUDA_SUCCESS:
            raise RunError(f"the emulator on {self._device}: {what}: {error.name}{remedy(error.name)}")
        return values[0] if values else None


def remedy(error: str) -> str:
    """Return advice for the error message if the CUDA driver has rejected the compiled kernels, or "" for other
    errors."""
    if error in REJECTED:
        return ": the driver is older than NVRTC; update it, or install the NVRTC of the driver's CUDA version"
    return ""
