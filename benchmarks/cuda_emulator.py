"""Measures frames/s of Atari games on a GPU and on CPU cores, as figures 2 to 4 and table 4 of Dalton & Frosio 2020.

    | python -m benchmarks.cuda_emulator --json OUT                                     # Breakout, by environments
    | python -m benchmarks.cuda_emulator --games all57 --loads emulation inference                # Figure 2
    | python -m benchmarks.cuda_emulator --games assault --loads emulation inference training     # Figure 4
    | python -m benchmarks.cuda_emulator --games pong --envs 256 1024 --loads training --algorithms dqn a2c ppo #Table 4
    | python -m benchmarks.cuda_emulator --games ms_pacman --envs 512 --by-step 400              # Figure 3
    | python -m benchmarks.cuda_emulator --device cpu --envs 32 --seconds 0.5                     # the host build, slow

    | emulation    random actions, drawn before       inference    a network acts       training    an algorithm learns
    | device       games on the learner's device      workers      games on all CPU cores, by this project's emulator

For each game and number of environments, all loads (emulation, inference, training) and engines are measured in turns.
In some agent steps, the fast core of the emulator gives up, and the slower plain core repeats the step on one thread of
the GPU, while all environments wait. The column "plain steps" counts the plain core's steps among the first 8 steps of
each environment. Rates are emulated frames (4 per env step) per second. The experiment `experiments.dalton:table_3`
measures how long training takes to reach a score (table 3 of the paper).

The networks are not the paper's, because Dalton & Frosio report only the number of parameters (4 million). The network
for inference has the two convolutions of Mnih et al. 2016 (0.66 million parameters at 84x84). Training uses each
algorithm's default network, and horizons of 5 for PPO and DQN.
"""

import itertools
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.machine.devices import Device, runtime
from accel_rl.machine.placement import place_processes
from accel_rl.planning.plan import resolve_device
from accel_rl.samplers.device_games import make_device_game
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import default_config
from accel_rl.text.counts import Count
from benchmarks.harness import program
from benchmarks.harness.agents import make_agent
from benchmarks.harness.games import chosen
from benchmarks.harness.measured_training import FOREVER, synchronize
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.sampling import Sampling
from benchmarks.harness.table import table
from benchmarks.harness.training import Training
from benchmarks.harness.turns import Measure

ALGORITHMS = ("a2c", "ppo", "dqn", "c51", "rainbow", "impala")
LOADS = ("emulation", "inference", "training")
ENGINES = ("device", "workers")
FRAMES = 4  # An env step has 4 emulated frames.
WARM_UP = 6
"""Number of rollouts before a measurement. After these rollouts, sampling into both rollout buffers is captured as CUDA
graphs."""
WARM_CYCLES = 4
BLOCK = 20  # --by-step prints one rate per 20 env steps.
COUNTED = 8
"""The steps that the plain core plays are counted in this number of first steps of each environment."""


@dataclass(frozen=True)
class Options(program.Options):
    games: tuple[str, ...] = ("breakout",)
    """Atari games, or all57."""
    envs: tuple[Count, ...] = (32, 128, 512, 2048, 8192)
    """Numbers of environments."""
    engines: tuple[str, ...] = ENGINES
    """Engines that emulate the games: device, workers."""
    loads: tuple[str, ...] = ("emulation", "inference")
    """Loads that are measured: emulation, inference, training."""
    algorithms: tuple[str, ...] = ("a2c",)
    """Algorithms that train: a2c, ppo, dqn, c51, rainbow, impala."""
    by_step: Count = 0
    """Instead of measuring the loads, play the given number of steps from one start state in all environments, and
    print the rates of each block of 20 steps."""
    horizon: Count = 5
    """Number of steps of a rollout (N of A2C in Dalton & Frosio 2020)."""
    frame: str = "84x84"
    """Size of the picture: 84x84 or 104x80."""
    device: str = "auto"
    """Device of the emulation and the network: auto, cpu, cuda or cuda:N."""

    TINY: ClassVar[dict[str, Any]] = {"envs": (4,), "horizon": 2}

    def check(self) -> None:
        super().check()
        chosen(self.games)
        self.one_of("engines", ENGINES)
        self.one_of("loads", LOADS)
        self.one_of("algorithms", ALGORITHMS)
        self.one_of("frame", ("84x84", "104x80"))
        self.at_least(1, "horizon", "envs")
        self.at_least(0, "by_step")
        resolve_device(self.device)


@dataclass(frozen=True)
class Load:
    """A kind of work to measure: emulation, inference, or training by `algorithm`."""

    game: str
    envs: int
    engine: str = "device"
    kind: str = "emulation"
    algorithm: str = "a2c"
    horizon: int = 5
    frame: str = "84x84"
    decorrelation_steps: int = 300

    def config(self, device: str) -> Resolved:
        base, engine = default_config(self.algorithm), self.engine
        algo: Any = base.algo
        if hasattr(algo, "replay"):
            size = max(50_000, 4 * self.envs * self.horizon)
            algo = replace(algo, replay=replace(algo.replay, size=size, start=max(1_000, self.envs * self.horizon)))
        groups = 2 if self.envs % 2 == 0 and Device(device).queues_work else 1
        cores = place_processes(device=device).workers
        workers = max(n for n in range(1, cores + 1) if self.envs % (n * groups) == 0 or n == 1)
        sampler = replace(
            base.sampler, envs=self.envs, horizon=self.horizon, engine=engine, groups=groups,
            workers=None if engine == "device" else workers, decorrelation_steps=self.decorrelation_steps,
        )  # fmt: skip
        config = replace(
            base, env=replace(base.env, game=self.game, frame=self.frame), algo=algo, sampler=sampler,
            evaluation=replace(base.evaluation, interval=0), env_steps=FOREVER, device=device,
        )  # fmt: skip
        return resolve(config)

    def build(self, device: str, folder: Path, stack: ExitStack) -> tuple[Measure, float | None]:
        """Build and warm up the work. Return (function that measures frames/s, peak memory on the GPU in MiB)."""
        peak_memory(device)
        config = self.config(device)
        if self.kind == "training":
            training = Training(config, folder, WARM_CYCLES)
            stack.callback(training.close)
            measure: Any = training.training
        else:
            sampling = Sampling(config)
            stack.callback(sampling.close)
            agent = make_agent("none" if self.kind == "emulation" else "a3c", sampling.spec, device)
            sampling.collect(agent, WARM_UP)
            measure = partial(sampling.rate, agent)
        return lambda seconds: FRAMES * measure(seconds), peak_memory(device)


def peak_memory(device: str) -> float | None:
    """Return the maximum memory of tensors on the GPU since the last call of this function, in MiB, or None for a
    CPU."""
    if not device.startswith("cuda"):
        return None
    torch.cuda.init()  # The memory statistics of a GPU can be reset only after init().
    peak = torch.cuda.max_memory_allocated(device) / 2**20
    runtime(device).reset_peak_memory_stats(device)
    return peak


def by_step(game: str, envs: int, steps: int, block: int, device: str) -> list[dict[str, float]]:
    """Play from one start state in all environments (figure 3), and return frames/s and resets of each block of steps.
    On a CPU, which simulates warps, also return the divergence: the iterations of the instruction loop of a warp,
    divided by those of a lane. The divergence is 1 if all lanes always run the same instructions."""
    config = Load(game, envs).config(device)
    device_game = make_device_game(config.env, True, True, device)
    batch, out = DeviceEnvs(device_game, [0] * envs), DeviceStep.empty(envs, device_game)
    generator, n_actions = torch.Generator().manual_seed(0), config.spec.n_actions
    actions = torch.randint(n_actions, (steps, envs), generator=generator).to(device_game.device)
    batch.begin(out)
    rows = []
    for first in range(0, steps, block):
        ended, warps, lanes = torch.zeros((), dtype=torch.int64, device=device_game.device), 0, 0
        synchronize(device)
        begin = time.perf_counter()
        played = actions[first : first + block]
        for action in played:
            if Device(device).queues_work:
                batch.step(action, out)
            else:
                of_warps, of_lanes = batch.step_counting(action, out)
                warps, lanes = warps + of_warps, lanes + of_lanes
            ended += out.ended.sum()
        synchronize(device)
        frames = FRAMES * envs * len(played)
        row = {"step": first, "frames_per_s": frames / (time.perf_counter() - begin), "resets": float(ended)}
        rows.append(row | ({"divergence": warps * min(32, envs) / lanes} if lanes else {}))
    return rows


def plain_steps(config: Resolved, device: str) -> int:
    """Return how many of the first COUNTED steps of all environments the plain core plays. Environments have different
    seeds and random actions."""
    device_game = make_device_game(config.env, True, False, device)
    envs = config.sampler.envs
    batch, out = DeviceEnvs(device_game, list(range(envs))), DeviceStep.empty(envs, device_game)
    generator = torch.Generator().manual_seed(0)
    batch.begin(out)
    given_up = torch.zeros((), dtype=torch.int64, device=device_game.device)
    for action in torch.randint(config.spec.n_actions, (COUNTED, envs), generator=generator):
        batch.step(action.to(device_game.device), out)
        given_up += batch.code.count_nonzero()
    return int(given_up)


def case(o: Options, game: str, envs: int, stack: ExitStack) -> Case:
    """Build the measurements of all loads and engines for one game and one number of environments."""
    device, folder = resolve_device(o.device), Path(stack.enter_context(tempfile.TemporaryDirectory()))
    variants: dict[str, Measure] = {}
    memory, plain = {}, {}
    counted = plain_steps(Load(game, envs, frame=o.frame).config(device), device) if "device" in o.engines else 0
    for kind, engine in itertools.product(o.loads, o.engines):
        for algorithm in o.algorithms if kind == "training" else ("a2c",):
            name = f"{algorithm if kind == 'training' else kind}, {engine}"
            load = Load(game, envs, engine, kind, algorithm, o.horizon, o.frame)
            variants[name], memory[name] = load.build(device, folder / name.replace(", ", "-"), stack)
            if engine == "device":
                plain[name] = counted
    columns = {"GPU memory, MiB": memory, "plain steps": plain}
    return Case({"game": game, "envs": envs}, variants, compared=False, columns=lambda _: columns)


def steps_case(o: Options, game: str, envs: int, stack: ExitStack) -> Case:
    """Build the measurement for --by-step, whose result is the rate of the last block of steps in frames/s."""
    blocks: list[list[dict[str, float]]] = []

    def play(seconds: float) -> float:
        blocks.append(by_step(game, envs, o.by_step, BLOCK, resolve_device(o.device)))
        return blocks[-1][-1]["frames_per_s"]

    return Case({"game": game, "envs": envs}, {"last block": play}, figures=lambda _: {"by_step": blocks[-1]})


def cases(o: Options) -> list[Build]:
    build = steps_case if o.by_step else case
    return [partial(build, o, game, envs) for game in chosen(o.games) for envs in o.envs]


def lines(o: Options, result: dict[str, Any]) -> list[str]:
    """Return lines of text with the quartiles over games of the rates of each load, engine and number of environments.
    With --by-step, return a table of all blocks of steps."""
    results, rows = result["results"], []
    if o.by_step:
        columns = ("step", "frames_per_s", "resets", "divergence")
        rows = [[r["game"], r["envs"], *(b.get(c) for c in columns)] for r in results for b in r["by_step"]]
        return ["", *table(("game", "envs", *columns), rows)]
    if len({r["game"] for r in results}) == 1:
        return []
    for name, envs in dict.fromkeys((name, r["envs"]) for r in results for name in r["median"]):
        rates = [r["median"][name] for r in results if r["envs"] == envs]
        quartiles = statistics.quantiles(rates, n=4, method="inclusive")
        rows.append([name, envs, min(rates), *quartiles, max(rates), quartiles[1] / envs])
    return ["", *table(("load", "envs", "least game", "25 %", "median", "75 %", "most", "an env"), rows)]


main = Benchmark("cuda_emulator", __doc__, Options, cases, "frames/s", lines).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
