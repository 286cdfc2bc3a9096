"""Throughput against the number of ranks, synchronous and asynchronous: Tables 1, 2 and 3 of Stooke & Abbeel 2018.

    1  sampling speed with A3C-Net by total simulator count, in thousands of samples/s: all ranks meet every five steps
       (sync), or run on their own (async)
    2  hours to complete 50 million steps: A2C and A3C with 16 environments a rank, PPO and APPO with 8
    3  the same for DQN-512 (also asynchronous), epsilon-Rainbow-512 and CAT-DQN-2048, past a replay's random start,
       which is short here (--fill; the paper: 50,000 steps), and so is the replay

Beside the hours stand env steps/s, and of each rank's time the share that went into all-reduce or pushes and into
waiting for locks. Ranks share the machine's cores (and --gpus) evenly. A case that does not come to its end is said,
and the others go on.

    python -m benchmarks.scaling --tables 1 2 3 --ranks 1 2 4 8 --json OUT
"""

import contextlib
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from accel_rl.distributed.process_group import file_store
from accel_rl.system import hardware
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError, RunError
from accel_rl.system.patience import Patience
from accel_rl.system.process import before_torch, die_with_parent, tune_torch
from benchmarks.program import program

STEPS = 50_000_000
REPLAY = 40_000  # ten times what is in it at the start: drawing does not depend on how full it is
END_S = 30.0
RUNS: dict[int, dict[str, tuple[str, bool]]] = {  # experiment, whether asynchronous
    2: {
        "A2C": ("a2c_ranks", False),
        "A3C": ("a3c", True),
        "PPO": ("ppo_ranks", False),
        "APPO": ("appo", True),
    },
    3: {
        "DQN-512": ("dqn_scaling", False),
        "DQN-512 *": ("async_dqn", True),
        "e-RAINBOW-512": ("rainbow_512", False),
        "CAT-DQN-2048": ("c51_scaling", False),
    },
}
ENVS = {"a2c_ranks": 16, "ppo_ranks": 8}  # of a rank; where all ranks' are asked for


@dataclass(frozen=True)
class Options:
    tables: tuple[int, ...] = (2,)
    """Of 1, 2 and 3."""
    ranks: tuple[int, ...] = (1, 2)
    """Numbers of ranks (the paper: 1 2 4 8 GPUs)."""
    gpus: str = ""
    """GPUs, such as 0,1; a run takes as many as it has ranks. Default: none."""
    game: str = "breakout"
    """Atari game."""
    simulators: tuple[int, ...] = (64, 128, 256, 512)
    """Table 1: in all."""
    seconds: float = 30.0
    """Of one measurement, past the start."""
    repeats: Count = 3
    """Turns; medians are reported."""
    fill: Count = 4_096
    """Table 3: env steps of random play that the replay begins with."""
    patience: float = 600.0
    """Until two rounds were learned from, seconds; a case that takes longer is given up."""
    only: tuple[str, ...] = ()
    """Rows of Tables 2 and 3, such as A2C DQN-512. Default: all."""
    json: str = ""
    """Also write everything to this file."""


# -- training ------------------------------------------------------------


def command(o: Options, experiment: str, ranks: int, is_async: bool, folder: Path) -> list[str]:
    flags: list[object] = ["--game", o.game, "--ranks", ranks]
    if experiment in ENVS:
        flags += ["--envs", ENVS[experiment] * ranks]
    if experiment == "ppo_ranks":
        flags += ["--horizon", 256 // ranks]
    if is_async:
        flags += ["--update", "async"]
    if o.gpus:
        flags += ["--gpus", ",".join(o.gpus.split(",")[:ranks])]
    if replays(experiment):  # a row after every round: it takes long
        flags += ["--replay.size", max(REPLAY, 2 * o.fill), "--replay.start", o.fill, "--log.interval", 64]
    else:
        flags += ["--log.interval", 512]
    flags += ["--env-steps", STEPS, "--evaluation.interval", 0, "--checkpoint.interval", 0]
    flags += ["--decorrelation-steps", 30, "--run-dir", folder]
    return [sys.executable, "-m", "accel_rl", "train", f"experiments.stooke:{experiment}", *map(str, flags)]


def replays(experiment: str) -> bool:
    return experiment in [e for e, _ in RUNS[3].values()]


def rows(folder: Path) -> list[dict[str, str]]:
    """Of a run, once it learns."""
    try:
        with open(folder / "metrics.csv", newline="") as f:
            return [r for r in csv.DictReader(f) if None not in r.values() and float(r["updates"] or 0) > 0]
    except FileNotFoundError:
        return []


def watched(process: subprocess.Popen, folder: Path, seconds: float, patience_s: float) -> list[dict[str, str]]:
    """The rows of so many seconds of learning, and of longer where there are not yet two."""
    start, learning = Patience(patience_s), Patience(seconds)
    while process.poll() is None:
        found = rows(folder)
        if (learning.over and len(found) > 1) or (start.over and len(found) < 2):
            break
        start.spend(lambda _: time.sleep(0.05))
        if found:
            learning.spend(lambda _: time.sleep(0.05))
    return rows(folder)


def train(o: Options, experiment: str, ranks: int, is_async: bool) -> dict[str, float]:
    """env steps/s between the first row and the last, and the shares of time. ConfigError, RunError: the run's own."""
    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder) / "run", Path(folder) / "stderr"
        with open(said, "wb") as err:  # a pipe that nobody reads would stop it
            process = subprocess.Popen(
                command(o, experiment, ranks, is_async, path),
                stdout=subprocess.DEVNULL,
                stderr=err,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        try:
            found = watched(process, path, o.seconds, o.patience)
            if process.poll() is not None or len(found) < 2:
                lines = said.read_text().strip().splitlines()
                slow = f"its first two rounds of learning took more than {o.patience:g} s"
                error = ConfigError if process.poll() == 2 else RunError
                raise error(f"{experiment} on {ranks} ranks: {lines[-1] if process.poll() and lines else slow}")
        finally:
            end(process)
    first, last = found[0], found[-1]
    wall = float(last["wall_s"]) - float(first["wall_s"])
    share = {
        name: (float(last.get(name) or 0) - float(first.get(name) or 0)) / wall for name in ("sync_s", "lock_wait_s")
    }
    return {"steps_per_s": (int(last["env_steps"]) - int(first["env_steps"])) / wall, **share}


def end(process: subprocess.Popen) -> None:
    """With all that it has started, and without the checkpoint that it would write if it were asked to end."""
    if process.poll() is None:
        everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for p in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                p.kill()
        psutil.wait_procs(everything, timeout=END_S)
    process.wait()


# -- sampling ------------------------------------------------------------


def sample(o: Options, simulators: int, ranks: int, sync: bool) -> dict[str, float]:
    """env steps/s of all ranks."""
    fd = os.memfd_create("store")
    setup = {"game": o.game, "envs": simulators // ranks, "ranks": ranks, "sync": sync, "seconds": o.seconds,
             "gpus": o.gpus, "fd": fd, "parent": os.getpid()}  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scaling", "rank", json.dumps({**setup, "rank": r})],
            pass_fds=(fd,),
            stdout=subprocess.PIPE,
        )
        for r in range(ranks)
    ]
    try:
        ends = [p.communicate(timeout=o.patience + o.seconds)[0] for p in processes]
        if any(p.returncode for p in processes):
            raise RunError(f"{simulators} simulators on {ranks} ranks: exit codes {[p.returncode for p in processes]}")
    except subprocess.TimeoutExpired as e:
        raise RunError(f"{simulators} simulators on {ranks} ranks: more than {o.patience:g} s") from e
    finally:
        for p in processes:
            p.kill()
        os.close(fd)
    return {"steps_per_s": sum(float(e.decode().split()[-1]) for e in ends)}


def sampling_rank(setup: dict[str, Any]) -> None:
    """A process of Table 1: five steps of its environments, again and again."""
    from dataclasses import replace

    from accel_rl.config.train import default_config
    from accel_rl.envs.make import make_spec
    from accel_rl.runners.build import build_sampler
    from accel_rl.runners.learner import Learner
    from accel_rl.runners.plan import RankPlan
    from accel_rl.runners.ranks.rank_config import rank_config
    from accel_rl.runners.ranks.sync_context import join_ranks

    die_with_parent(setup["parent"])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    r, size = setup["rank"], setup["ranks"]
    base = default_config("a2c")
    group = replace(base.distributed, ranks=size, gpus=setup["gpus"])
    sampler = replace(base.sampler, envs=setup["envs"] * size, decorrelation_steps=30)
    config = replace(base, env=replace(base.env, game=setup["game"]).resolved(), distributed=group, sampler=sampler)
    mine = rank_config(config, r)
    plan = RankPlan.resolve(mine, r, size)
    tune_torch(plan.placement.torch_threads)
    hardware.pin(plan.placement.server_cores)
    spec = make_spec(mine.env, training=True)
    agent = Learner(mine, spec, plan.device, 0).algo.agent
    first = r * mine.sampler.envs
    source = build_sampler(replace(plan.sampler, T=5), mine.env, spec, mine, seed=0, training=True, first_index=first)
    with join_ranks(mine, plan.device, file_store(setup["fd"], size), r, size, size) as communicator:
        for _ in range(4):
            source.collect(agent)
        communicator.stops(False)
        n, began = 0, time.perf_counter()
        while True:
            n += int(source.collect(agent).valid.sum())
            over = time.perf_counter() - began > setup["seconds"]
            if communicator.stops(over) if setup["sync"] else over:
                break
        rate = n / (time.perf_counter() - began)
        source.close()
        communicator.stops(False)
    print(rate)


# -- tables ------------------------------------------------------------


def cases(o: Options) -> dict[tuple[int, str, int], Any]:
    """(table, row, column) -> a measurement. Table 1's columns are 0 (sync) and 1 (async)."""
    found: dict[tuple[int, str, int], Any] = {}
    for table in o.tables:
        if table == 1:
            for n in o.simulators:
                for column, sync in enumerate((True, False)):
                    found[1, str(n), column] = lambda n=n, sync=sync: sample(o, n, max(o.ranks), sync)
            continue
        for name, (experiment, is_async) in RUNS[table].items():
            for ranks in o.ranks if not o.only or name in o.only else ():
                if ranks > 1 or not is_async:  # as in the paper: one asynchronous rank is none
                    found[table, name, ranks] = lambda e=experiment, r=ranks, a=is_async: train(o, e, r, a)
    return found


def report(o: Options, result: dict[str, Any]) -> list[str]:
    medians = {}
    for case, found in result["results"].items():
        table, row, column = case.split("/")
        ended = [m for m in found if "failed" not in m]
        medians[int(table), row, int(column)] = (
            {k: statistics.median(m[k] for m in ended) for k in ended[0]} if ended else {}
        )
    lines: list[str] = []
    cores = len(hardware.usable_cores())
    for table in o.tables:
        mine = {(row, column): m for (t, row, column), m in medians.items() if t == table}
        if table == 1:
            lines.append(f"Table 1, {max(o.ranks)} ranks on {cores} cores, thousands of samples/s")
            lines.append("| # SIMS (PER CORE) | SYNC | ASYNC |")
            for n in o.simulators:
                rates = [mine[str(n), c].get("steps_per_s") for c in (0, 1)]
                cells = ["did not end" if r is None else f"{r / 1e3:.1f}" for r in rates]
                lines.append(f"| {n} ({n / cores:g}) | {' | '.join(cells)} |")
            continue
        what = "# GPU" if o.gpus else "ranks"
        lines.append(
            f"Table {table}, hours to complete 50 million steps (env steps/s; sync, of it lock wait, % of time)"
            + (f", past a replay's start of {o.fill:,} steps" if table == 3 else "")
        )
        lines.append(f"| ALGORITHM | {' | '.join(f'{r} {what} ({cores} CPU)' for r in o.ranks)} |")
        for name in RUNS[table]:
            cells = [cell(mine.get((name, r))) for r in o.ranks]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def cell(m: dict[str, float] | None) -> str:
    """Of a measurement; {}: it did not come to its end; None: there is none."""
    if not m:
        return "–" if m is None else "did not end"
    hours = f"{STEPS / m['steps_per_s'] / 3600:.1f}" if m["steps_per_s"] else "inf"
    return f"{hours} ({m['steps_per_s']:,.0f}; {100 * m['sync_s']:.1f}, {100 * m['lock_wait_s']:.1f})"


def check(o: Options) -> None:
    for t in o.tables:
        if t not in (1, 2, 3):
            raise ConfigError(f"--tables {t}: must be of 1, 2, 3")
    if not o.ranks or min(o.ranks) < 1 or o.repeats < 1 or not o.seconds > 0:
        raise ConfigError(f"--ranks {o.ranks} --repeats {o.repeats} --seconds {o.seconds}: at least 1, and above 0")
    if not o.patience > 0:
        raise ConfigError(f"--patience {o.patience}: must be above 0")
    names = [name for t in o.tables if t > 1 for name in RUNS[t]]
    for name in o.only:
        if name not in names:
            raise ConfigError(f"--only {name}: must be of {', '.join(names) or 'Tables 2 and 3'}")
    for n in o.simulators if 1 in o.tables else ():
        if n < 1 or n % (2 * max(o.ranks)):
            raise ConfigError(f"--simulators {n}: must divide by 2 groups x {max(o.ranks)} ranks")
    if 2 in o.tables and any(256 % r for r in o.ranks):
        raise ConfigError(f"--ranks {o.ranks}: PPO's batch of 2,048 must divide; powers of 2 up to 256")


def run(o: Options) -> dict[str, Any]:
    measurements: dict[str, list[dict[str, Any]]] = {}
    wrong = []
    for turn in range(o.repeats):
        for case, measure in cases(o).items():
            began, name = time.monotonic(), "/".join(map(str, case))
            try:
                found = measure()
                said = f"{found['steps_per_s']:,.1f} env steps/s"
            except RunError as e:
                found, said = {"failed": str(e)}, str(e)
                wrong.append(f"{name}: {e}")
            measurements.setdefault(name, []).append(found)
            line = f"  {turn + 1}/{o.repeats}  table {' '.join(map(str, case))}: {said}"
            print(f"{line} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return {"results": measurements, "wrong": wrong}


def main(argv: list[str]) -> int:
    before_torch()
    if argv[:1] == ["rank"]:
        sampling_rank(json.loads(argv[1]))
        return 0
    return program("scaling", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
