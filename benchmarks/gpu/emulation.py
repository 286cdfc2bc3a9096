"""Measures frames/s of emulation, inference and training with Atari games, emulated on the GPU and on CPU cores."""

from contextlib import ExitStack
from functools import partial

from benchmarks.cuda_emulator import COUNTED, Load, by_step, plain_steps
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.harness.program import Case

GOALS = {("emulation", 8_192): 1e6, ("emulation", 65_536): 1e7, ("training", 8_192): 5e5}
"""Goals in emulated frames/s on the GPU, by load and number of environments. Dalton & Frosio 2020 report 41 to 155
thousand frames/s of emulation with 4,096 environments, and 68 thousand frames/s of training on one GPU."""


def measure(bench: Bench) -> Result:
    """Measure each number of environments, and 400 steps of ms_pacman from one start state. Count the steps that the
    emulator's plain core plays."""
    sizes = bench.sizes
    result = bench.run([partial(case, bench, envs) for envs in sizes.emulated_envs], "frames/s")
    medians = {(name, r["environments"]): rate for r in result.cases for name, rate in r["median"].items()}
    for (kind, envs), bound in GOALS.items():
        if (rate := medians.get((f"{kind}, device", envs))) is not None:
            result.goals.append(Goal(f"{kind} on {envs:,} environments, frames/s", rate, bound))
    envs, steps = sizes.emulated_envs[0], sizes.emulated_steps
    blocks = by_step("ms_pacman", envs, steps, max(1, steps // 4), bench.device)
    rates = ", ".join(f"{block['frames_per_s']:,.0f}" for block in blocks)
    result.notes.append(f"ms_pacman, {envs} environments from one start, frames/s by quarter of steps: {rates}")
    for game in dict.fromkeys((bench.game, "qbert")):
        plain = plain_steps(Load(game, envs).config(bench.device), bench.device)
        result.notes.append(
            f"{game}, {envs} environments: the plain core played {plain} of the first {COUNTED} steps each"
        )
    return result


def case(bench: Bench, envs: int, stack: ExitStack) -> Case:
    """Build the measurements of emulation, inference and training for one number of environments."""
    sizes, variants, memory = bench.sizes, {}, {}
    wanted = [("emulation", "device"), ("inference", "device")]
    wanted += [("training", "device")] if envs <= sizes.trained_envs else []
    wanted += [("emulation", "workers")] if envs <= sizes.acting_envs[-1] and not sizes.in_process else []
    for kind, engine in wanted:
        name = f"{kind}, {engine}"
        load = Load(bench.game, envs, engine, kind, decorrelation_steps=sizes.decorrelation_steps)
        folder = bench.folder / f"{kind}-{engine}-{envs}"
        variants[name], memory[name] = load.build(bench.device, folder, stack)
    return Case({"environments": envs}, variants, compared=False, columns=lambda _: {"GPU memory, MiB": memory})
