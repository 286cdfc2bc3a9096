"""Compare a game's own kernel with the kernel of all games, once for each model of GPU. The game's own kernel is used
only if its results are equal and it is not slower.

    | child process  compile (block_kernel.py) -> both kernels play the same steps -> the trial is stored in the cache
    | run            uses the game's kernel if it was equal, and faster with as many environments per warp

Before the trial, each environment plays a different number of steps, so that environments are at different points of
the game.
"""

import contextlib
import copy
import hashlib
import json
import os
import signal
import sys
import time
from statistics import median

import torch

from accel_rl.emulator import rom_compiler
from accel_rl.emulator.device import block_kernel, nvrtc
from accel_rl.emulator.device.block_kernel import GameKernel, Trial
from accel_rl.emulator.device.cuda import LEAST_LANES, WARP, CudaKernels, kernels_of
from accel_rl.emulator.device.device_vector_env import DeviceOptions, load_game
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import DeviceGame
from accel_rl.emulator.games import games
from accel_rl.files import code_cache
from accel_rl.files.code_cache import cache_folder
from accel_rl.processes.child import accept_signals
from accel_rl.processes.process import watch_parent
from accel_rl.text.errors import ConfigError, RunError

PLAYED = 150
"""Number of agent steps that are played before the trial, to reach the middle of the game."""
STEPS = 16
STICKY = 0.25


def main(game: str, index: str, parent_pid: str) -> int:
    """Compile a game for a GPU and try the kernel on the GPU, or wait for another process that does so. Write the
    kernel and its trial to stdout."""
    accept_signals()
    os.nice(rom_compiler.NICE)
    if not watch_parent(int(parent_pid), signal.SIGTERM):
        return 1
    try:
        nvrtc.version()
        device = torch.device("cuda", int(index))
        capability = torch.cuda.get_device_capability(device)
        lock = cache_folder() / f"emulator-{game}-{capability[0]}{capability[1]}"
        with contextlib.ExitStack() as stack:
            # If the cache folder cannot be used, each process compiles the game's kernel again.
            with contextlib.suppress(OSError, ConfigError):
                stack.enter_context(rom_compiler.turn(lock))
            compiled = block_kernel.compiled(game, capability)
            trial = stored(game, compiled, device)
    except (ConfigError, RunError, OSError, RuntimeError) as error:
        print(f"{game} is interpreted on the GPU: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(block_kernel.packed(GameKernel(compiled, trial)))
    return 0


def stored(game: str, compiled: nvrtc.Compiled, device: torch.device) -> Trial:
    """Read the trial of a compiled game on this model of GPU from the cache folder. If the trial is missing, compare
    the kernels and store the trial."""
    kernels, gpu = kernels_of(device), torch.cuda.get_device_name(device)
    key = hashlib.sha256(repr((compiled.code, kernels.code, gpu)).encode()).hexdigest()[:32]
    file = cache_folder() / f"emulator-{game}-trial-{key}"
    is_refused = code_cache.refusal(file.parent)
    if not is_refused and (content := code_cache.read(file)) is not None:
        return Trial(**json.loads(content))
    trial = play(game, compiled, kernels, device)
    if not trial.differs:  # A difference between the kernels is reported by the run.
        print(f"{game} on {gpu}: {trial}", file=sys.stderr)
    if not is_refused:
        with contextlib.suppress(OSError):
            code_cache.write(file, json.dumps(trial._asdict()).encode())
    return trial


def play(game: str, compiled: nvrtc.Compiled, kernels: CudaKernels, device: torch.device) -> Trial:
    """Play a game by its own kernel and by the kernel of all games, with 4 and with 32 environments per warp."""
    codes = games()[game]["actions"]
    few = LEAST_LANES * kernels.warps
    options = DeviceOptions(game, few, repeat_action_probability=STICKY, device=str(device), translate=False)
    tables = load_game(options, codes, device)
    translated = copy.copy(tables)
    translated.translated = game
    kernels.load(game, compiled.code)
    generator = torch.Generator(device).manual_seed(0)
    envs = in_play(tables, few, len(codes), PLAYED)
    milliseconds = []
    for lanes in (LEAST_LANES, WARP):
        n = lanes * kernels.warps
        sides = [
            _Side(side, envs.state["envs"][:, torch.arange(n, device=device) % few]) for side in (translated, tables)
        ]
        for t in range(STEPS):
            action = torch.randint(len(codes), (n,), generator=generator, device=device)
            for side in sides[:: 1 if t % 2 else -1]:
                side.step(action)
            if name := sides[0].differs_from(sides[1]):
                return Trial([], f"{name} in step {t} of {n:,} environments")
        # The first step is not timed, because this step loads the kernel.
        milliseconds.append([round(1e3 * median(side.seconds[1:]), 3) for side in sides])
    return Trial(milliseconds)


def in_play(game: DeviceGame, n: int, n_actions: int, steps: int) -> DeviceEnvs:
    """Return n environments, which have played different numbers of random actions, from `steps` / 2 to `steps`."""
    generator = torch.Generator(game.device).manual_seed(1)
    envs, out = DeviceEnvs(game, list(range(n))), DeviceStep.empty(n, game)
    envs.begin(out)
    delays = torch.arange(n, device=game.device) * (steps // 2) // n
    for t in range(steps):
        action = torch.randint(n_actions, (n,), generator=generator, device=game.device)
        envs.step(torch.where(delays > t, -1, action), out)
    return envs


class _Side:
    """The environments of one of the two kernels that are compared."""

    def __init__(self, game: DeviceGame, states: torch.Tensor) -> None:
        n = states.shape[1]
        self._envs, self._out = DeviceEnvs(game, [0] * n), DeviceStep.empty(n, game)
        self._envs.state["envs"].copy_(states)
        self.seconds: list[float] = []

    def step(self, action: torch.Tensor) -> None:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        self._envs.step(action, self._out)
        torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - begun)

    def differs_from(self, other: "_Side") -> str:
        """Return the name of the first result that differs between the kernels, or ""."""
        for name, x, y in zip(DeviceStep._fields, self._out, other._out, strict=True):
            rows = self._out.ended if name == "final_frame" else slice(None)
            if not torch.equal(x[rows], y[rows]):
                return name
        return "" if torch.equal(self._envs.state["envs"], other._envs.state["envs"]) else "state"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
