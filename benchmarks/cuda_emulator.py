"""Rates of Atari on a GPU beside CPU cores: Figures 2 to 4 and Tables 3 and 4 of Dalton & Frosio 2020.

    python -m benchmarks.cuda_emulator --json OUT                                     # Breakout, by environments
    python -m benchmarks.cuda_emulator --games all57 --loads emulation inference                # Figure 2
    python -m benchmarks.cuda_emulator --games assault --loads emulation inference training     # Figure 4
    python -m benchmarks.cuda_emulator --games pong --envs 256 1024 --loads training --algorithms dqn a2c ppo # Table 4
    python -m benchmarks.cuda_emulator --games ms_pacman --envs 512 --by-step 400               # Figure 3
    python -m benchmarks.cuda_emulator --device cpu --envs 32 --seconds 0.5                     # the host build, slow

    emulation    random actions, drawn before        inference    a network acts        training    an algorithm learns
    device       games on the learner's device       workers      games on all CPU cores, by this project's emulator

All settings of a game and a number of environments take turns. Rates are emulated frames (4 an env step) a second,
medians of the rounds. Time to score, in Table 3, is `experiments.dalton:table_3`'s.

Ours are the networks: the paper's text gives 4 million parameters and no layers. Inference is by the two convolutions
of Mnih et al. 2016 (0.66 million at 84x84), training by each algorithm's default, with horizons of 5 for PPO and DQN.
"""

import contextlib
import itertools
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_rl.runners.plan import resolve_device
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError, nearest
from benchmarks.emulation import ENGINES, LOADS, Setting, built, by_step, peak_memory
from benchmarks.emulator_trace import chosen
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.sizes import FULL
from benchmarks.interleave import Bar, interleave
from benchmarks.program import program

ENVS = (32, 128, 512, 2048, 8192)
ALGORITHMS = ("a2c", "ppo", "dqn", "c51", "rainbow", "impala")


@dataclass(frozen=True)
class Options:
    games: tuple[str, ...] = ("breakout",)
    """Atari games, or all57."""
    envs: tuple[Count, ...] = ENVS
    """Numbers of environments."""
    engines: tuple[str, ...] = ENGINES
    """Where games are emulated: device, workers."""
    loads: tuple[str, ...] = ("emulation", "inference")
    """What is measured: emulation, inference, training."""
    algorithms: tuple[str, ...] = ("a2c",)
    """Algorithms that train: a2c, ppo, dqn, c51, rainbow, impala."""
    by_step: Count = 0
    """Instead: play so many steps from one start state in all environments, and print the rates of each block of 20."""
    horizon: Count = 5
    """Steps of a rollout (N of the paper's A2C)."""
    frame: str = "84x84"
    """Picture: 84x84 or 104x80."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seconds: float = 2.0
    """Length of one measurement."""
    rounds: Count = 5
    """Turns of each setting."""
    json: str = ""
    """File for all measurements, in JSON."""


def check(o: Options) -> None:
    chosen(",".join(o.games))
    for name, values, allowed in (
        ("engines", o.engines, ENGINES), ("loads", o.loads, LOADS), ("algorithms", o.algorithms, ALGORITHMS),
    ):  # fmt: skip
        for value in values:
            if value not in allowed:
                raise ConfigError(f"--{name} {value}: must be one of {', '.join(allowed)}{nearest(value, allowed)}")
    if o.frame not in ("84x84", "104x80"):
        raise ConfigError(f"--frame {o.frame}: must be 84x84 or 104x80")
    for name, number in (("rounds", o.rounds), ("horizon", o.horizon), *(("envs", n) for n in o.envs)):
        if number < 1:
            raise ConfigError(f"--{name} {number}: must be at least 1")
    if not o.seconds > 0:
        raise ConfigError(f"--seconds {o.seconds}: must be above 0")
    if o.by_step < 0:
        raise ConfigError(f"--by-step {o.by_step}: must be 0 or more")
    resolve_device(o.device)


def settings(o: Options, game: str, envs: int) -> dict[str, Setting]:
    """The settings that take turns, by name."""
    found = {}
    for load, engine in itertools.product(o.loads, o.engines):
        for algorithm in o.algorithms if load == "training" else ("a2c",):
            what = algorithm if load == "training" else load
            name = f"{game}, {envs}, {what}, {engine}"
            found[name] = Setting(game, envs, engine, load, algorithm, o.horizon, o.frame)
    return found


def measure(o: Options) -> dict[str, Any]:
    device, games = resolve_device(o.device), chosen(",".join(o.games))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(device, replace(FULL, warm_cycles=4), Path(folder), 1e9)
        if o.by_step:
            sizes = {f"{g}, {n}": (g, n) for g in games for n in o.envs}
            return {
                "device": device,
                "by_step": {k: by_step(g, n, o.by_step, 20, bench) for k, (g, n) in sizes.items()},
            }
        total = sum(len(settings(o, g, n)) for g in games for n in o.envs) * o.rounds
        bar, rows = Bar(total, "frames/s"), []
        for game, envs in itertools.product(games, o.envs):
            with contextlib.ExitStack() as stack:
                parts, memory = {}, {}
                for name, setting in settings(o, game, envs).items():
                    peak_memory(device)
                    parts[name] = stack.enter_context(built(setting, replace_folder(bench, len(rows))))
                    memory[name] = peak_memory(device)
                found = interleave({n: lambda w=w: w(o.seconds) for n, w in parts.items()}, o.rounds, bar)  # type: ignore[misc]
            for name, setting in settings(o, game, envs).items():
                what = setting.algorithm if setting.load == "training" else setting.load
                rows.append({"game": game, "envs": envs, "load": what, "engine": setting.engine,
                             "frames_per_s": found[name], "gpu_memory_bytes": memory[name]})  # fmt: skip
        bar.close()
    return {"device": device, "rates": rows}


def replace_folder(bench: Bench, number: int) -> Bench:
    """Give each training a folder of its own."""
    folder = bench.folder / str(number)
    folder.mkdir(exist_ok=True)
    return replace(bench, folder=folder)


def report(o: Options, result: dict[str, Any]) -> list[str]:
    if "by_step" in result:
        return [line for name, rows in result["by_step"].items() for line in _by_step_lines(name, rows)]
    rows, lines = result["rates"], [f"emulated frames a second on {result['device']}, of {len(o.games)} games:"]
    lines.append(f"{'load':<12}{'engine':<10}{'envs':>7}{'least':>12}{'25 %':>12}{'median':>12}{'75 %':>12}{'most':>12}"
                 f"{'an env':>10}{'GPU MiB':>10}")  # fmt: skip
    for load, engine, envs in dict.fromkeys((r["load"], r["engine"], r["envs"]) for r in rows):
        here = [r for r in rows if (r["load"], r["engine"], r["envs"]) == (load, engine, envs)]
        rates = sorted(statistics.median(r["frames_per_s"]) for r in here)
        quartiles = statistics.quantiles(rates, n=4, method="inclusive") if len(rates) > 1 else rates * 3
        shown = (rates[0], *quartiles, rates[-1])
        memory = [r["gpu_memory_bytes"] for r in here if r["gpu_memory_bytes"]]
        lines.append(f"{load:<12}{engine:<10}{envs:>7}" + "".join(f"{x:>12,.0f}" for x in shown)
                     + f"{quartiles[1] / envs:>10,.1f}{max(memory) / 2**20 if memory else 0:>10,.0f}")  # fmt: skip
    return lines


def _by_step_lines(name: str, rows: list[dict[str, float]]) -> list[str]:
    lines = [f"{name} environments from one start state", f"{'step':>6}{'frames/s':>12}{'resets':>8}{'divergence':>12}"]
    for r in rows:
        divergence = f"{r['divergence']:.2f}" if "divergence" in r else "-"
        lines.append(f"{r['step']:>6.0f}{r['frames_per_s']:>12,.0f}{r['resets']:>8.0f}{divergence:>12}")
    return lines


def main(argv: list[str]) -> int:
    return program("cuda_emulator", __doc__, Options, argv, check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
