"""Sampler-only throughput against its own parts, measured in one run.

    E  bare emulation with preprocessing, a process on each core
    I  acting alone (A3C-Net) at the same batch
    S  the sampler: workers step, the action server acts
    bound = 1 / (1/E + 1/I): on a machine where both share the same cores, nothing can beat it by much

E, I and S take turns (E I S E I S ...); medians. `python -m benchmarks.sampler --game breakout --json OUT`
"""

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from accel_rl.arguments import parse
from accel_rl.errors import ConfigError
from accel_rl.process import before_torch

before_torch()

import torch  # noqa: E402

from accel_rl import hardware, process  # noqa: E402
from accel_rl.agents.categorical import CategoricalPolicyAgent  # noqa: E402
from accel_rl.config import Count, OptionalCount, SamplerConfig, TrainConfig  # noqa: E402
from accel_rl.envs.make import EnvConfig, make_spec  # noqa: E402
from accel_rl.models.actor_critic import ActorCritic  # noqa: E402
from accel_rl.runners.build import build_sampler, resolve_device  # noqa: E402
from accel_rl.samplers.alternating import Sampler  # noqa: E402
from accel_rl.samplers.grouping import Grouping  # noqa: E402
from benchmarks.bare import Bare  # noqa: E402
from benchmarks.machine import cpu_ticks, machine  # noqa: E402


@dataclass(frozen=True)
class Options:
    game: str = "breakout"
    """Atari game."""
    workers: OptionalCount = None
    """Worker processes. Default: one per usable core."""
    envs_per_worker: Count = 32
    """Environments of each worker, both groups together."""
    groups: Count = 2
    """Alternating groups."""
    horizon: Count = 20
    """Steps per rollout."""
    reset: str = "immediate"
    """immediate or wait."""
    frame: str = "104x80"
    """Picture: 104x80, 104x80-mean or 84x84."""
    seconds: float = 4.0
    """Length of one measurement."""
    repeats: Count = 5
    """Measurements of each part; medians are reported."""
    device: str = "cpu"
    """Where the network runs."""
    json: str = ""
    """Also write everything to this file."""


def acting(agent: CategoricalPolicyAgent, sampler: Sampler, seconds: float, threads: int) -> float:
    """Observations/s of the network alone, at the batch of one group."""
    rollout = sampler.server.rollouts[0]
    b = sampler.grouping.group(0)
    obs = rollout.observations(0, b=b, learning=False)
    torch.set_num_threads(threads)
    uniform = torch.rand(b.stop - b.start, device=obs.device)
    n, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        agent.act(obs, uniform)[0].cpu()
        n += len(obs)
    return n / took


def sampling(agent: CategoricalPolicyAgent, sampler: Sampler, seconds: float) -> tuple[float, float]:
    """(env steps/s, share of the workers' time that environments took)."""
    pool, n = sampler.engine, 0
    busy, begin = sum(pool.env_seconds()), time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        n += int(sampler.collect(agent).valid.sum())
    return n / took, (sum(pool.env_seconds()) - busy) / took / sampler.grouping.workers


def run(o: Options) -> dict:
    placement = hardware.plan(workers=o.workers, device=resolve_device(o.device))
    grouping = Grouping(placement.workers * o.envs_per_worker, o.groups, placement.workers)
    process.tune_torch(placement.torch_threads)
    env = EnvConfig(game=o.game, frame=o.frame)
    spec = make_spec(env, training=True)
    config = TrainConfig(
        env=env, sampler=SamplerConfig(envs=grouping.B, horizon=o.horizon, groups=o.groups, reset=o.reset)
    )
    torch.manual_seed(0)
    agent = CategoricalPolicyAgent(ActorCritic(spec).to(placement.device))
    sampler = build_sampler(env, spec, config, placement, grouping, T=o.horizon, seed=0, training=True)
    cores = sorted({c for c in placement.worker_cores if c is not None} | set(placement.server_cores))
    bare = Bare(asdict(env), cores, 4)
    results: dict[str, list[float]] = {"E": [], "I": [], "S": [], "busy": []}
    try:
        sampler.collect(agent)
        total, stolen = cpu_ticks()
        for _ in range(o.repeats):
            results["E"].append(bare.measure(o.seconds))
            results["I"].append(acting(agent, sampler, o.seconds, placement.torch_threads))
            steps, busy = sampling(agent, sampler, o.seconds)
            results["S"].append(steps)
            results["busy"].append(busy)
            print(
                f"  E {results['E'][-1]:,.0f}  I {results['I'][-1]:,.0f}  S {steps:,.0f}", file=sys.stderr, flush=True
            )
        after = cpu_ticks()
    finally:
        sampler.close()
        bare.close()
    median = {k: statistics.median(v) for k, v in results.items()}
    median["bound"] = 1 / (1 / median["E"] + 1 / median["I"])
    bounds = [1 / (1 / e + 1 / i) for e, i in zip(results["E"], results["I"], strict=True)]
    ratios = [s / b for s, b in zip(results["S"], bounds, strict=True)]
    return {
        "options": asdict(o),
        "machine": machine(),
        "B": grouping.B,
        "workers": placement.workers,
        "measurements": results,
        "median": median,
        "ratio_of_medians": median["S"] / median["bound"],
        "median_of_ratios": statistics.median(ratios),
        "stolen": (after[1] - stolen) / max(after[0] - total, 1),
    }


def report(r: dict) -> str:
    m = r["median"]
    return "\n".join(
        [
            f"{r['options']['game']}, {r['B']} environments, {r['workers']} workers, {r['machine']['cpu']}, "
            f"{len(r['machine']['cores'])} cores, {100 * r['stolen']:.0f} % of the time stolen by other guests",
            f"E  bare emulation, all cores   {m['E']:>9,.0f} env steps/s",
            f"I  acting alone, A3C-Net       {m['I']:>9,.0f} env steps/s",
            f"   1 / (1/E + 1/I)             {m['bound']:>9,.0f} env steps/s",
            f"S  sampler                     {m['S']:>9,.0f} env steps/s",
            f"S / bound                      {r['ratio_of_medians']:>9.2f}   (median of the ratios run by run: "
            f"{r['median_of_ratios']:.2f}); environments took {100 * m['busy']:.0f} % of the workers' time",
        ]
    )


def main(argv: list[str]) -> int:
    try:
        o = parse(Options, argv, "python -m benchmarks.sampler", __doc__ or "")
        result = run(o)
    except ConfigError as e:
        print(f"benchmarks.sampler: {e}", file=sys.stderr)
        return 2
    print(report(result))
    if o.json:
        Path(o.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
