"""Atari on the GPU beside CPU cores: emulation, inference and training by number of environments."""

import contextlib
from dataclasses import replace

from benchmarks.emulation import Setting, built, by_step, peak_memory
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.interleave import medians

COLUMNS = ("load", "emulated on", "environments", "frames/s", "frames/s an environment", "GPU memory, MiB")
GOALS = {8_192: 1_000_000.0, 65_536: 10_000_000.0}
"""Emulated frames a second, emulation only (Dalton & Frosio 2020: 41 to 155 thousand at 4,096)."""
TRAINING = 500_000.0
"""Emulated frames a second of training (Dalton & Frosio 2020: 68 thousand on one GPU, 187 on four)."""


def measure(bench: Bench) -> Result:
    result = Result(COLUMNS)
    sizes = bench.sizes
    for i, envs in enumerate(sizes.emulated_envs):
        share = 1 / (len(sizes.emulated_envs) - i)
        _measure(bench, envs, share, result)
    rows = by_step("ms_pacman", sizes.emulated_envs[0], sizes.emulated_steps, max(1, sizes.emulated_steps // 4), bench)
    result.measurements["ms_pacman by step"] = rows
    rates = ", ".join(f"{row['frames_per_s']:,.0f}" for row in rows)
    result.notes.append(
        f"ms_pacman, {sizes.emulated_envs[0]} environments from one start, by quarter of steps: {rates}"
    )
    return result


def _measure(bench: Bench, envs: int, share: float, result: Result) -> None:
    settings = {"emulation": "device", "inference": "device"}
    if envs <= bench.sizes.trained_envs:
        settings["training"] = "device"
    base = Setting(bench.game, envs, decorrelation_steps=bench.sizes.decorrelation_steps)
    wanted = {f"{load}, {engine}, {envs}": replace(base, load=load, engine=engine) for load, engine in settings.items()}
    if envs <= bench.sizes.acting_envs[-1] and not bench.sizes.in_process:
        wanted[f"emulation, workers, {envs}"] = replace(base, engine="workers")
    memory = {}
    with contextlib.ExitStack() as stack:
        parts = {}
        for name, setting in wanted.items():
            peak_memory(bench.device)
            parts[name] = stack.enter_context(built(setting, bench))
            memory[name] = peak_memory(bench.device)
        found = bench.turns(parts, share)
    m = medians(found)
    for name, setting in wanted.items():
        used = memory[name]
        where = "the GPU" if setting.engine == "device" else "CPU cores"
        result.rows.append([setting.load, where, envs, m[name], m[name] / envs, used / 2**20 if used else None])
        if setting.load == "emulation" and setting.engine == "device" and envs in GOALS:
            result.goals.append(Goal(f"emulation of {envs:,} environments, frames/s", m[name], GOALS[envs]))
        if setting.load == "training":
            result.goals.append(Goal(f"A2C on {envs:,} environments, frames/s", m[name], TRAINING))
    result.measurements |= found
