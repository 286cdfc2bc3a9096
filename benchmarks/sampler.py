"""Sampler-only throughput against its own parts, measured in one run.

    ale_act_only      ale-py's `act` four times, no screen is read, a process on each core
    environment_only  the environments with screen reads and preprocessing, a process on each core
    inference_only    inference at the batch of one group (of all groups where each has its own thread), with the
                      fastest number of torch threads. It calls the agent; the sampler replays captured inference
    sampling          the sampler: workers step, the action server acts
    bound             1 / (1/environment_only + 1/inference_only): both parts share the same cores

The parts take turns; medians. Several values of an option are a sweep over all combinations. The samplers of one game
are then measured once more in turns with each other (benchmarks/sampler_turns.py):

    python -m benchmarks.sampler --game breakout --json OUT
    python -m benchmarks.sampler --game breakout pong --envs-per-worker 2 4 8 16 32 64 --nets none a3c --plot OUT.png

The net `none` takes random actions without inference. No learner runs, so sampling never pauses at rollout boundaries.
--together synchronises all workers every --horizon steps; sweep --horizon to see what that costs. `benchmarks.scaling
--tables 1` measures ranks with and without a barrier across them. The last lines say where the time of a step went
(benchmarks/breakdown.py).
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
from benchmarks.bare import KINDS, Bare  # noqa: E402
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
    """Number of worker processes. Default: one per usable core."""
    envs_per_worker: tuple[int, ...] = (32,)
    """Number of environments of each worker, over all groups."""
    groups: tuple[int, ...] = ()
    """Number of alternating groups. Default: as in training."""
    horizon: tuple[int, ...] = (20,)
    """Steps per rollout."""
    together: bool = False
    """Synchronise the workers at the end of each rollout, as before an update. Otherwise groups with workers and a
    thread of their own continue (the default on a CPU)."""
    reset: tuple[str, ...] = ("immediate",)
    """Mode of reset: immediate, wait, swap or cached."""
    nets: tuple[str, ...] = ("a3c",)
    """Networks that act: none (random actions without inference), a3c, dqn."""
    policy: str = ""
    """Run folder; its newest checkpoint acts, with the network of --nets. Default: untrained weights."""
    one_core: bool = False
    """Also measure environment_only on one core, with one process and with one on each hyperthread (Stooke & Abbeel,
    figure 2)."""
    frame: str = "104x80"
    """Picture: 104x80, 104x80-mean or 84x84."""
    backend: str = "auto"
    """Emulator: auto, ale or emulator. ale_act_only uses ale-py in any case."""
    decorrelation_steps: Count = 300
    """Maximum number of random actions at the start of each environment."""
    seconds: float = 4.0
    """Length of one measurement."""
    repeats: Count = 5
    """Measurements of each part; medians are reported."""
    device: str = "cpu"
    """Device of the network."""
    json: str = ""
    """Also write everything to this file."""
    plot: str = ""
    """Also draw steps/s per core against environments per core (Stooke & Abbeel, figure 2) into this PNG."""


def settings(o: Options) -> list[Setting]:
    """Return every combination of the options, game by game."""
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
    """Raise ConfigError, one line, for impossible options."""
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
    """Measure one sampler with one network and its parts, in turns."""
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
    parts = {kind: lambda kind=kind: bare.measure(o.seconds, kind) for kind in KINDS}
    parts |= ({} if net == "none" else {"inference_only": acting}) | {"sampling": sampling}
    total, stolen = cpu_ticks()
    label = f"{ours.setting.game}, {ours.setting.envs_per_worker} environments per worker, {net}: "
    found = interleave(parts, o.repeats, bar, label)
    total_after, stolen_after = cpu_ticks()

    m = medians(found)
    alone = found.get("inference_only", [float("inf")] * o.repeats)  # random actions need no inference
    bounds = [1 / (1 / e + 1 / i) for e, i in zip(found["environment_only"], alone, strict=True)]
    m |= {"bound": 1 / (1 / m["environment_only"] + 1 / statistics.median(alone)), "busy": statistics.median(busy)}
    under = {f"sampling/{kind}": found[kind] for kind in KINDS} | {"sampling/bound": bounds}
    time = breakdown.breakdown(
        cores=bare.cores,
        rate=m["sampling"],
        steps=ours.steps,
        cpu=ours.cpu,
        emulation_us=statistics.median(bare.cpu_us["environment_only"]),
        ale_act_us=statistics.median(bare.cpu_us["ale_act_only"]),
        inference_us=statistics.median(inference_us) if inference_us else 0.0,
        copy_us=statistics.median(copy_us) if copy_us else 0.0,
    )
    return {
        **ours.describe(),
        "net": net,
        "cores": bare.cores,
        "inference_threads": act_threads,
        "measurements": found,
        "median": m,
        "ratios": {name: ratio(found["sampling"], values) for name, values in under.items()},
        "breakdown": time,
        "memory": memory.of(ours),
        "late_resets": ours.sampler.engine.late_resets(),
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
