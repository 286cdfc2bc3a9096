"""Compares CudaKernels on a CPU replacement of CUDA's driver (libcuda.cpp) with the kernels' CPU build, step by step.

    LD_LIBRARY_PATH=FOLDER python -m tests.emulator.device.on_libcuda '[{"game": "pong", "n": 33, "steps": 3}]'

FOLDER contains the library libcuda.so.1, which has the game's own kernel if it was compiled with the game's blocks. A
case with "translated": true uses the game's own kernel, and a case that names only a game runs the trial
(kernel_trial.py) of this kernel. The program prints one JSON list with the `Found` of each case. The comparison needs a
separate process, because a process can load only one libcuda.so.1.
"""

import contextlib
import json
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from accel_rl.emulator.device import block_kernel, cuda, kernel_trial, step
from accel_rl.emulator.device import envs as device_envs
from accel_rl.emulator.device.block_kernel import GameKernel, Trial
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.nvrtc import Compiled
from accel_rl.envs.make import make_spec
from accel_rl.samplers.device_games import make_device_game
from tests.env_settings import env_of

STREAM, CONTEXT = 0x77, 0x55  # addresses of the only CUDA stream and context that libcuda.cpp accepts
# A made-up GPU that runs two warps at a time. A warp has at most 5 of 9 environments, and at most 32 of 64 or more.
GPU = SimpleNamespace(multi_processor_count=1, name="a stand-in")
IMAGE = Compiled(b"\x7fELF", "")


@dataclass
class Found:
    """Result of a case: the outputs that differ, and the numbers of events, summed over all environments and steps."""

    differs: list[str] = field(default_factory=list)
    finished: int = 0
    ended: int = 0
    lost: int = 0
    skipped: int = 0
    translated: int = 0


def install() -> None:
    """Patch torch and `CudaKernels`, so that they use the stream and the kernel image of libcuda.cpp."""
    from cuda.bindings import driver

    def synchronize() -> None:
        """Set the CUDA context of the thread, as torch's synchronize does."""
        driver.cuCtxSetCurrent(driver.CUcontext(CONTEXT))

    torch.cuda.current_stream = lambda device=None: SimpleNamespace(cuda_stream=STREAM, synchronize=synchronize)
    torch.cuda.device = lambda device: contextlib.nullcontext()
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    torch.cuda.get_device_properties = lambda device: GPU
    torch.cuda.get_device_name = lambda device: GPU.name
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.current_device = lambda: 0
    kernel: Future[GameKernel | None] = Future()
    kernel.set_result(GameKernel(IMAGE, Trial([[1, 2], [1, 2]])))
    cuda.compiled = lambda capability: IMAGE
    block_kernel.begin = lambda game, gpu: kernel


@contextlib.contextmanager
def on_libcuda() -> Any:
    """Let DeviceEnvs step by CudaKernels instead of the kernels' CPU build."""
    on_host, device_envs.step_atari = device_envs.step_atari, step._on_cuda
    yield
    device_envs.step_atari = on_host


def compare(game: str, n: int, steps: int, played_before: int = 0, translated: bool = False, **settings: Any) -> Found:
    """Play `played_before` steps of n environments by the kernels' CPU build, and then `steps` steps by the CPU build
    and by CudaKernels."""
    env = env_of(game=game, randomness="counter", **settings)
    device_game = make_device_game(env, True, True, "cpu")
    device_game.translated = game if translated else ""
    actions = make_spec(env, training=True).n_actions
    host, other = (DeviceEnvs(device_game, list(range(n))) for _ in range(2))
    outs = [DeviceStep.empty(n, device_game) for _ in range(2)]
    found = Found()
    generator = torch.Generator().manual_seed(0)
    host.begin(outs[0])
    with on_libcuda():
        other.begin(outs[1])
    check(found, "begin", outs, torch.zeros(n, dtype=torch.bool))
    for t in range(played_before + steps):
        action = torch.randint(actions, (n,), generator=generator)
        action[t % n] = -1 if n > 1 else 0
        if t == played_before:
            other.set_state(host.get_state())
        host.step(action, outs[0])
        if t < played_before:
            continue
        with on_libcuda(), ThreadPoolExecutor(1) as pool:  # Step in a new thread, which has no CUDA context.
            pool.submit(other.step, action, outs[1]).result()
        check(found, f"step {t}", outs, outs[0].ended)
        found.finished += int(host.code.count_nonzero())
        found.ended += int(outs[0].ended.sum())
        found.lost += int((outs[0].terminated & ~outs[0].ended).sum())
        found.skipped += int((action < 0).sum())
        found.translated += int(translated and cuda.kernels_of(action.device)._kernels[game] is not None)
        if not torch.equal(host.code, other.code):
            found.differs.append(f"step {t}: code")
        if t + 1 == played_before + steps and host.get_state() != other.get_state():
            found.differs.append(f"step {t}: state")
    return found


def check(found: Found, when: str, outs: list[DeviceStep], ended: torch.Tensor) -> None:
    for name, expected, result in zip(DeviceStep._fields, *outs, strict=True):
        rows = ended if name == "final_frame" else slice(None)
        if not torch.equal(expected[rows], result[rows]):
            found.differs.append(f"{when}: {name}")


def tried(game: str) -> list[Trial]:
    """Run the trial of a game's own kernel twice, and return both results: the second is read from the cache."""
    kernel_trial.PLAYED, kernel_trial.STEPS = 12, 4
    with on_libcuda():
        return [kernel_trial.stored(game, IMAGE, torch.device("cpu")) for _ in range(2)]


if __name__ == "__main__":
    install()
    cases = json.loads(sys.argv[1])
    print(json.dumps([tried(**case) if "n" not in case else asdict(compare(**case)) for case in cases]))
