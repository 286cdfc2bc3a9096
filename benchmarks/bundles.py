"""Updates/s of a Gorila cluster on this machine by its number of bundles, and the processes that its time goes to.

Each case is a run of `experiments.gorila:pong_small` whose bundles have one core each (--bundle-cpus 1), measured from
its metrics.csv after the first updates. --intensities: of training, samples learned from per env step. A high one makes
the learners the bound, a low one the sampling. Processor time is in cores: 1 is one core, busy all the time.

    python -m benchmarks.bundles [--bundles 1 2] [--intensities 2 0.25] [--repeats 5] --json OUT
"""

import contextlib
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import psutil

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError
from accel_rl.system.hardware import usable_cores
from benchmarks.program import program
from benchmarks.watched_run import watched_run

ROLES = {"Member": "bundles", "ShardActor": "shards", "Board": "board"}
"""Process titles that Ray gives to its actors, by the actor's class."""
COLUMNS = ("bundles", "shards", "board", "driver and Ray")


@dataclass(frozen=True)
class Options:
    bundles: tuple[int, ...] = (1, 2)
    """Numbers of bundles."""
    shards: Count = 1
    """Number of shards."""
    intensities: tuple[float, ...] = (2.0, 0.25)
    """Training intensities, in samples learned from per env step."""
    seconds: float = 20.0
    """Minimum length of one measurement."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    patience: float = 120.0
    """Seconds after which a run without updates fails."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        cores = len(usable_cores())
        if not self.bundles or min(self.bundles) < 1:
            raise ConfigError(f"--bundles {' '.join(map(str, self.bundles))}: each must be at least 1")
        if max(self.bundles) > cores:
            raise ConfigError(f"--bundles {max(self.bundles)}: at most {cores}, the number of cores")
        if not self.intensities or min(self.intensities) <= 0:
            raise ConfigError(f"--intensities {' '.join(map(str, self.intensities))}: each must be above 0")
        if min(self.shards, self.repeats) < 1 or min(self.seconds, self.patience) <= 0:
            raise ConfigError("--shards, --repeats: at least 1; --seconds, --patience: above 0")


def arguments(o: Options, bundles: int, intensity: float) -> list[str]:
    flags = {
        "--bundles": bundles, "--bundle-cpus": 1, "--shards": o.shards, "--intensity": intensity,
        "--replay.start": 500, "--gorila.updates": 10**9, "--evaluation.interval": 0, "--checkpoint.interval": 0,
        "--log.interval": 512,
    }  # fmt: skip
    return ["experiments.gorila:pong_small", *(str(x) for pair in flags.items() for x in pair)]


def processor_seconds(run: psutil.Process) -> tuple[float, dict[str, float]]:
    """Return the time, and the processor seconds so far of the run's processes by role."""
    found = dict.fromkeys(COLUMNS, 0.0)
    tree = {run.pid: COLUMNS[-1]}
    for p in run.children(recursive=True):  # parents come first
        with contextlib.suppress(psutil.Error):
            title = (p.cmdline() or [""])[0]
            role = next((role for name, role in ROLES.items() if f"::{name}" in title), None)
            tree[p.pid] = role or tree.get(p.ppid(), COLUMNS[-1])
    for pid, role in tree.items():
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            found[role] += times.user + times.system
    return time.monotonic(), found


def train(o: Options, bundles: int, intensity: float) -> dict[str, float]:
    argv = arguments(o, bundles, intensity)
    rows, ((began, before), (ended, after)) = watched_run(
        f"{bundles} bundles", argv, o.seconds, o.patience, processor_seconds
    )
    first, last = rows[0], rows[-1]
    wall = float(last["wall_s"]) - float(first["wall_s"])
    found = {
        "updates_per_s": (int(last["updates"]) - int(first["updates"])) / wall,
        "env_steps_per_s": (int(last["env_steps"]) - int(first["env_steps"])) / wall,
        "pushes_per_s": float(last["pushes_per_s"]),
        "bytes_per_s": float(last["bytes_per_s"]),
        "push_delay": float(last["push_delay"]),
    }
    return found | {f"cores: {role}": (after[role] - before[role]) / (ended - began) for role in COLUMNS}


def measure(o: Options) -> dict[str, Any]:
    measurements: dict[str, list[dict[str, float]]] = {}
    for turn in range(o.repeats):
        for intensity in o.intensities:
            for bundles in o.bundles:
                name = f"{intensity:g}/{bundles}"
                measurements.setdefault(name, []).append(train(o, bundles, intensity))
                rate = measurements[name][-1]["updates_per_s"]
                line = f"  {turn + 1}/{o.repeats}  intensity {intensity:g}, {bundles} bundles: {rate:,.1f} updates/s"
                print(line, file=sys.stderr, flush=True)
    return {"results": measurements}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Format medians, with the ratio to the first number of bundles: the median of the ratios of each turn."""
    lines = [
        "| intensity | bundles | updates/s | ratio | env steps/s | staleness, pushes | MB/s | cores: "
        + " | cores: ".join(COLUMNS)
        + " |",
        "|" + "---|" * (7 + len(COLUMNS)),
    ]
    for intensity in o.intensities:
        base = [m["updates_per_s"] for m in result["results"][f"{intensity:g}/{o.bundles[0]}"]]
        for bundles in o.bundles:
            found = result["results"][f"{intensity:g}/{bundles}"]
            m = {k: statistics.median(x[k] for x in found) for k in found[0]}
            ratio = statistics.median(x["updates_per_s"] / b for x, b in zip(found, base, strict=True))
            cores = " | ".join(f"{m[f'cores: {role}']:.2f}" for role in COLUMNS)
            lines.append(
                f"| {intensity:g} | {bundles} | {m['updates_per_s']:.1f} | {ratio:.2f} | {m['env_steps_per_s']:,.0f} "
                f"| {m['push_delay']:.1f} | {m['bytes_per_s'] / 1e6:.0f} | {cores} |"
            )
    return lines


def main(argv: list[str]) -> int:
    return program("bundles", __doc__, Options, argv, Options.check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
