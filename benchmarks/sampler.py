"""Sampler-only throughput against its own parts, measured in one run.

    E0     act x 4 and no screen read, a process on each core
    E      bare emulation with the reads and the preprocessing, a process on each core
    I      acting alone at the batch of one group (of all, where each has its own thread), with as many torch threads
           as are fastest. The agent is called; the sampler makes again what it has led to, without Python
    S      the sampler: workers step, the action server acts
    bound  1 / (1/E + 1/I) where both share the same cores: nothing can beat it by much

All take turns (E0 E I S E0 E ...); medians. Several values of an option are a sweep over all combinations; a game's
samplers are then measured once more beside each other, in turns (benchmarks/sampler_turns.py):

    python -m benchmarks.sampler --game breakout --json OUT
    python -m benchmarks.sampler --game breakout pong --envs-per-worker 2 4 8 16 32 64 --nets none a3c --plot OUT.png

The net `none` is the environment alone: random actions, no inference. The sampler is free: who ends a rollout begins
the next, since nobody learns between. --together synchronises all workers every --horizon steps; sweep that to see what
it costs. Ranks, with a barrier across them and without, are measured by `benchmarks.scaling --tables 1`. The last lines
say where each microsecond of a step went (benchmarks/breakdown.py).
"""

import itertools
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel_rl.system.errors import ConfigError
from accel_rl.system.process import before_torch

before_torch()

from accel_rl.runners.plan import resolve_device  # noqa: E402
from accel_rl.runners.trained_policy import check_policy  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from benchmarks import breakdown, memory, one_core, sampler_turns  # noqa: E402
from benchmarks.agents import check_net, make_agent  # noqa: E402
from benchmarks.bare import Bare  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians, ratio  # noqa: E402
from benchmarks.machine import cpu_ticks, machine  # noqa: E402
from benchmarks.ours import Ours, Setting, cores_of  # noqa: E402
from benchmarks.program import program  # noqa: E402
from benchmarks.sampler_report import figure, report, table  # noqa: E402


@dataclass(frozen=True)
class Options:
    game: tuple[str, ...] = ("breakout",)
    """Atari games."""
    workers: tuple[int, ...] = ()
    """Worker processes. Default: one per usable core."""
    envs_per_worker: tuple[int, ...] = (32,)
    """Environments of each worker, all groups together."""
    groups: tuple[int, ...] = ()
    """Alternating groups. Default: as in training."""
    horizon: tuple[int, ...] = (20,)
    """Steps per rollout."""
    together: bool = False
    """Synchronise the workers at each rollout's end, as before an update; else who is ready goes on (where each group
    has workers and a thread of its own; by default on a CPU)."""
    reset: tuple[str, ...] = ("immediate",)
    """immediate, wait, swap or cached."""
    nets: tuple[str, ...] = ("a3c",)
    """Who acts: none (random actions, the environment alone), a3c, dqn."""
    policy: str = ""
    """Folder of a run whose newest checkpoint acts, with the network of --nets. Default: untrained weights."""
    one_core: bool = False
    """Also measure E on one core, by a process and by one on each of its hyperthreads (Stooke & Abbeel, figure 2)."""
    frame: str = "104x80"
    """Picture: 104x80, 104x80-mean or 84x84."""
    backend: str = "auto"
    """What plays: auto, ale or emulator. E0 is ale-py's in any case."""
    decorrelation_steps: Count = 300
    """Random actions at the start of each environment, at most."""
    seconds: float = 4.0
    """Length of one measurement."""
    repeats: Count = 5
    """Measurements of each part; medians are reported."""
    device: str = "cpu"
    """Where the network runs."""
    json: str = ""
    """Also write everything to this file."""
    plot: str = ""
    """Also draw steps/s per core against environments per core (Stooke & Abbeel, figure 2) into this PNG."""


def settings(o: Options) -> list[Setting]:
    """Every combination, game by game."""
    sweep = itertools.product(o.game, o.workers or (None,), o.envs_per_worker, o.groups or (None,), o.horizon, o.reset)
    return [
        Setting(
            game,
            envs,
            workers,
            groups,
            horizon,
            reset,
            o.frame,
            o.device,
            o.decorrelation_steps,
            backend=o.backend,
            together=o.together,
        )
        for game, workers, envs, groups, horizon, reset in sweep
    ]


def check(o: Options) -> None:
    """ConfigError, one line, before anything is started."""
    if o.repeats < 1 or not o.seconds > 0:
        raise ConfigError(f"--repeats {o.repeats} --seconds {o.seconds}: at least 1, and above 0")
    if min((*o.workers, *o.envs_per_worker, *o.groups, *o.horizon)) < 1:
        raise ConfigError("--workers, --envs-per-worker, --groups and --horizon: each must be at least 1")
    if o.plot and not Path(o.plot).absolute().parent.is_dir():
        raise ConfigError(f"--plot {o.plot}: there is no folder {Path(o.plot).absolute().parent}")
    for net in o.nets:
        check_net(net)
    if o.policy:
        check_policy("--policy", o.policy)
    resolve_device(o.device)
    for setting in settings(o):
        setting.check()


def measure(o: Options, ours: Ours, bare: Bare, net: str, bar: Bar) -> dict[str, Any]:
    """One sampler with one net: E0, E, I and S in turns, and what follows from them."""
    agent, threads = make_agent(net, ours.spec, ours.placement.device, o.policy), ours.placement.torch_threads
    act_threads = breakdown.best_threads(ours.sampler, agent, threads)
    inference_us, copy_us, busy = [], [], []

    def acting() -> float:
        rate, us = breakdown.per_observation(ours.sampler, agent, o.seconds, act_threads)
        inference_us.append(us)
        return rate

    def sampling() -> float:
        if agent.needs_obs:
            copy_us.append(breakdown.per_observation(ours.sampler, None, o.seconds / 8, threads)[1])
        rate = ours.measure(o.seconds, agent)
        busy.append(ours.busy)
        return rate

    ours.warm_up(agent)
    ours.reset_clocks()
    bare.reset_clocks()
    parts = {"E0": lambda: bare.measure(o.seconds, "E0"), "E": lambda: bare.measure(o.seconds, "E")}
    parts |= ({} if net == "none" else {"I": acting}) | {"S": sampling}
    total, stolen = cpu_ticks()
    label = f"{ours.setting.game}, {ours.setting.envs_per_worker} environments per worker, {net}: "
    found = interleave(parts, o.repeats, bar, label)
    total_after, stolen_after = cpu_ticks()

    m = medians(found)
    alone = found.get("I", [float("inf")] * o.repeats)  # nothing to act: no limit
    bounds = [1 / (1 / e + 1 / i) for e, i in zip(found["E"], alone, strict=True)]
    m |= {"bound": 1 / (1 / m["E"] + 1 / statistics.median(alone)), "busy": statistics.median(busy)}
    under = {"S/E0": found["E0"], "S/E": found["E"], "S/bound": bounds}
    time = breakdown.breakdown(
        cores=bare.cores,
        rate=m["S"],
        steps=ours.steps,
        cpu=ours.cpu,
        emulation_us=statistics.median(bare.cpu_us["E"]),
        act_us=statistics.median(bare.cpu_us["E0"]),
        inference_us=statistics.median(inference_us) if inference_us else 0.0,
        copy_us=statistics.median(copy_us) if copy_us else 0.0,
    )
    return {
        **ours.describe(),
        "net": net,
        "cores": bare.cores,
        "act_threads": act_threads,
        "measurements": found,
        "median": m,
        "ratios": {name: ratio(found["S"], values) for name, values in under.items()},
        "breakdown": time,
        "memory": memory.of(ours),
        "late_resets": ours.sampler.late_resets(),
        "stolen": (stolen_after - stolen) / max(total_after - total, 1),
    }


def run(o: Options) -> dict[str, Any]:
    cases = settings(o)
    groups = [list(same) for _, same in itertools.groupby(cases, key=lambda s: (s.game, s.workers))]
    beside = len(groups[0]) > 1 and all(sampler_turns.fit(group) for group in groups)
    parts = sum(3 if net == "none" else 4 for net in o.nets) + beside * len(o.nets)
    threads = one_core.first_core() if o.one_core else ()
    bar, results, turns = Bar((parts * len(cases) + min(2, len(threads))) * o.repeats), [], []
    try:
        for group in groups:
            bare = Bare(asdict(group[0].env()), cores_of(group[0].plan().placement))
            try:
                for setting in group:
                    ours = Ours(setting)
                    try:
                        results += [measure(o, ours, bare, net, bar) for net in o.nets]
                    finally:
                        ours.close()
            finally:
                bare.close()
            if beside:
                turns += sampler_turns.in_turns(group, o.nets, o.seconds, o.repeats, bar, o.policy)
        env = asdict(cases[0].env())
        alone = one_core.measure(env, threads, o.seconds, o.repeats, bar) if threads else {}
    finally:
        bar.close()
    return {"results": results, "in_turns": turns if beside else None, "one_core": alone}


def show(o: Options, result: dict[str, Any]) -> list[str]:
    m, found = machine(), result["results"]
    if o.plot:
        figure(found, Path(o.plot), {k: statistics.median(v) for k, v in result["one_core"].items()})
    head = f"{m['cpu']}, {len(m['cores'])} cores, {m['date']}; env steps/s, medians of {o.repeats} x {o.seconds:g} s"
    rest = table(found) if len(found) > 1 else []
    if result["in_turns"] is not None:
        rest += [line for turns in result["in_turns"] for line in sampler_turns.lines(turns)]
    elif len({r["game"] for r in found}) * len(o.nets) < len(found):
        rest += ["", "not measured in turns: together these samplers would take more than half of the free memory"]
    for name, rates in result["one_core"].items():
        rest += ["", f"one core of {o.game[0]}, no inference, {name}: {statistics.median(rates):,.0f} env steps/s"]
    return [head, *(line for r in found for line in report(r)), *rest]


def main(argv: list[str]) -> int:
    return program("sampler", __doc__, Options, argv, check, run, show)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
