"""Atari on the GPU beside CPU cores: emulation, inference and training by number of environments."""

from contextlib import ExitStack

from benchmarks.cuda_emulator import Load, by_step
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.harness.turns import medians

COLUMNS = ("load", "emulated on", "environments", "frames/s", "frames/s an environment", "GPU memory, MiB")
GOALS = {8_192: 1_000_000.0, 65_536: 10_000_000.0}
"""Emulated frames a second, emulation only (Dalton & Frosio 2020: 41 to 155 thousand at 4,096)."""
TRAINING = 500_000.0
"""Emulated frames a second of training (Dalton & Frosio 2020: 68 thousand on one GPU, 187 on four)."""


def measure(bench: Bench) -> Result:
    """Measure every number of environments, and 400 steps of Ms. Pac-Man from one start state."""
    result, sizes = Result(COLUMNS), bench.sizes
    for i, envs in enumerate(sizes.emulated_envs):
        _measure(bench, envs, 1 / (len(sizes.emulated_envs) - i), result)
    envs, steps = sizes.emulated_envs[0], sizes.emulated_steps
    rows = by_step("ms_pacman", envs, steps, max(1, steps // 4), bench.device)
    result.measurements["ms_pacman by step"] = rows
    rates = ", ".join(f"{row['frames_per_s']:,.0f}" for row in rows)
    result.notes.append(f"ms_pacman, {envs} environments from one start, by quarter of steps: {rates}")
    return result


def _measure(bench: Bench, envs: int, share: float, result: Result) -> None:
    wanted = [("emulation", "device"), ("inference", "device")]
    wanted += [("training", "device")] if envs <= bench.sizes.trained_envs else []
    wanted += [("emulation", "workers")] if envs <= bench.sizes.acting_envs[-1] and not bench.sizes.in_process else []
    parts, memory = {}, {}
    with ExitStack() as stack:
        for kind, engine in wanted:
            name = f"{kind}, {engine}, {envs}"
            load = Load(bench.game, envs, engine, kind, decorrelation_steps=bench.sizes.decorrelation_steps)
            parts[name], memory[name] = load.build(bench.device, bench.folder / name.replace(", ", "-"), stack)
        found = bench.turns(parts, share)
    m = medians(found)
    for kind, engine in wanted:
        name = f"{kind}, {engine}, {envs}"
        used, rate = memory[name], m[name]
        where = "the GPU" if engine == "device" else "CPU cores"
        result.rows.append([kind, where, envs, rate, rate / envs, used / 2**20 if used else None])
        if kind == "emulation" and engine == "device" and envs in GOALS:
            result.goals.append(Goal(f"emulation of {envs:,} environments, frames/s", rate, GOALS[envs]))
        if kind == "training":
            result.goals.append(Goal(f"A2C on {envs:,} environments, frames/s", rate, TRAINING))
    result.measurements |= found
