"""Loads of Dalton & Frosio 2020: emulation only, inference only, training; with games on the device or on CPU cores."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from accel_rl.config.resolved import Resolved, resolve
from accel_rl.config.train import default_config
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.runners.build import build_sampler
from accel_rl.runners.plan import RankPlan
from accel_rl.samplers.device_engine import make_device_game
from accel_rl.system.devices import Device, runtime
from accel_rl.system.placement import place_processes
from benchmarks.agents import make_agent
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.training import Training, declare_parts

LOADS = ("emulation", "inference", "training")
ENGINES = ("device", "workers")
FRAMES = 4  # emulated frames of an env step
WARM_UP = 6
"""Rollouts before a measurement: until they are captured, for each of the two buffers."""


@dataclass(frozen=True)
class Setting:
    """One measurement. algorithm: that trains."""

    game: str
    envs: int
    engine: str = "device"
    load: str = "emulation"
    algorithm: str = "a2c"
    horizon: int = 5  # N of the paper's A2C
    frame: str = "84x84"
    net: str = "a3c"  # that infers
    decorrelation_steps: int = 300

    def config(self, device: str) -> Resolved:
        """The settings of a run: sampling, and training by this algorithm."""
        base = default_config(self.algorithm)
        engine: Any = self.engine
        algo: Any = base.algo
        if hasattr(algo, "replay"):
            size = max(50_000, 4 * self.envs * self.horizon)
            algo = replace(algo, replay=replace(algo.replay, size=size, start=max(1_000, self.envs * self.horizon)))
        sampler = replace(
            base.sampler, envs=self.envs, horizon=self.horizon, engine=engine, groups=self._groups(device),
            workers=None if engine == "device" else self._workers(device),
            decorrelation_steps=self.decorrelation_steps,
        )  # fmt: skip
        config = replace(
            base, env=replace(base.env, game=self.game, frame=self.frame), algo=algo, sampler=sampler,
            evaluation=replace(base.evaluation, interval=0), env_steps=10**9, device=device,
        )  # fmt: skip
        return resolve(config)

    def _groups(self, device: str) -> int:
        return 2 if self.envs % 2 == 0 and Device(device).queues_work else 1

    def _workers(self, device: str) -> int:
        """As many of the cores as the environments divide by."""
        cores, groups = place_processes(device=device).workers, self._groups(device)
        return max(n for n in range(1, cores + 1) if self.envs % (n * groups) == 0 or n == 1)


@contextlib.contextmanager
def built(setting: Setting, bench: Bench) -> Iterator[Callable[[float], float]]:
    """Yield a function (seconds) -> emulated frames a second."""
    if setting.load == "training":
        training = Training(bench, f"{setting.game} {setting.engine} {setting.envs}", setting.config(bench.device))
        with contextlib.closing(training):
            yield lambda seconds: FRAMES * training.training(seconds)
        return
    config = setting.config(bench.device)
    plan, spec = RankPlan.resolve(config), config.spec
    sampler: Any = build_sampler(plan.sampler, config.env, spec, config, seed=0, training=True)
    with contextlib.closing(sampler):
        declare_parts(bench, sampler)
        agent = make_agent("none" if setting.load == "emulation" else setting.net, spec, bench.device)
        for _ in range(WARM_UP):
            sampler.collect(agent)
        yield partial(bench.rate, lambda: FRAMES * sampler.collect(agent).env_steps)


def by_step(game: str, envs: int, steps: int, block: int, bench: Bench) -> list[dict[str, float]]:
    """Play from one start state in all environments (Figure 3): frames/s and resets of each block of steps.

    On a CPU also the iterations of a warp for each iteration of a lane: 1 where all lanes run the same instructions.
    """
    config = Setting(game, envs).config(bench.device)
    device_game = make_device_game(config.env, True, True, bench.device)
    n_actions = config.spec.n_actions
    device = DeviceEnvs(device_game, [0] * envs)
    out, generator = DeviceStep.empty(envs, device_game), torch.Generator().manual_seed(0)
    actions = torch.randint(n_actions, (steps, envs), generator=generator).to(device_game.device)
    device.begin(out)
    found = []
    for first in range(0, steps, block):
        ended, warps, lanes = torch.zeros((), dtype=torch.int64, device=device_game.device), 0, 0
        bench.synchronize()
        begin = time.perf_counter()
        for action in actions[first : first + block]:
            if Device(bench.device).queues_work:
                device.step(action, out)
            else:
                of_warps, of_lanes = device.step_counting(action, out)
                warps, lanes = warps + of_warps, lanes + of_lanes
            ended += out.ended.sum()
        bench.synchronize()
        seconds = time.perf_counter() - begin
        played = len(actions[first : first + block])
        row = {"step": first, "frames_per_s": FRAMES * envs * played / seconds, "resets": float(ended)}
        if lanes:
            row["divergence"] = warps * min(32, envs) / lanes
        found.append(row)
    return found


def peak_memory(device: str) -> int | None:
    """The most bytes of a GPU that tensors took since the last call; None on another device."""
    if not device.startswith("cuda"):
        return None
    torch.cuda.init()  # without which there are no statistics to reset
    peak = int(torch.cuda.max_memory_allocated(device))
    runtime(device).reset_peak_memory_stats(device)
    return peak
