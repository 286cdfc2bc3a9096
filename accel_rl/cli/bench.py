"""The command accel-rl bench [options] measures the env steps/s of a sampler on this machine, without learning."""

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.api.rollout_source import RolloutSource, make_sampler
from accel_rl.parsing.arguments import parse, stdout
from accel_rl.planning.plan import default_workers
from accel_rl.text.counts import Count, counted
from accel_rl.text.errors import ConfigError

RANDOM = "none"
PEERS = "the benchmarks against peers and ceilings are programs of a checkout: python -m benchmarks.{name}"


@dataclass(frozen=True)
class BenchOptions:
    game: str = "pong"
    """Atari game to play."""
    envs_per_worker: Count = 16
    """Number of environments of each worker process."""
    workers: Count = 0
    """Number of worker processes, or 0 for one per usable core."""
    horizon: Count = 20
    """Number of steps of each environment in a rollout."""
    agents: tuple[str, ...] = (RANDOM, "a2c")
    """Agents with which sampling is measured: `none` (random actions), or names of algorithms, whose untrained networks
    act."""
    device: str = "auto"
    """Device of the networks: auto, cpu, cuda or cuda:N."""
    seconds: float = 4.0
    """Seconds of one measurement."""
    repeats: Count = 3
    """Number of measurements of each agent. The median is reported."""


def rate(sampler: RolloutSource, seconds: float) -> float:
    """Env steps/s. Skipped steps (--sampler.reset wait) are not counted."""
    steps = 0
    began = time.perf_counter()
    for rollout in sampler:
        steps += int(np.count_nonzero(rollout.valid.cpu().numpy()))
        if (took := time.perf_counter() - began) >= seconds:
            break
    return steps / took


def measured(agent: str, o: BenchOptions, workers: int) -> float:
    """Env steps/s of a new sampler. Raises ConfigError for impossible options."""
    values: dict[str, Any] = {
        "game": o.game,
        "workers": workers,
        "envs": workers * o.envs_per_worker,
        "horizon": o.horizon,
    }
    what, policy = ("a2c", "random") if agent == RANDOM else (agent, None)
    with make_sampler(what, policy=policy, device=o.device, **values) as sampler:
        sampler.collect()  # The first call of `collect` starts the worker processes.
        return rate(sampler, o.seconds)


def main(argv: list[str]) -> int:
    if argv and not argv[0].startswith("-"):
        raise ConfigError(f"accel-rl bench has no {argv[0]!r}; {PEERS.format(name=argv[0])}")
    o = parse(BenchOptions, argv, "accel-rl bench", "Measure env steps/s of a sampler, without learning.")
    if not o.seconds > 0:
        raise ConfigError(f"--seconds {o.seconds:g}: must be above 0")
    if not o.repeats:
        raise ConfigError("--repeats 0: must be at least 1")
    workers = o.workers or default_workers(o.device)
    rates: dict[str, list[float]] = {agent: [] for agent in o.agents}
    for _ in range(o.repeats):
        for agent in o.agents:
            rates[agent].append(measured(agent, o, workers))
    stdout(
        f"{o.game}, {counted(workers, 'worker')} of {counted(o.envs_per_worker, 'environment')}: median of {o.repeats} "
        f"x {o.seconds:g} s, in turns"
    )
    for agent, result in rates.items():
        label = "random actions" if agent == RANDOM else f"{agent}'s network"
        stdout(
            f"{label:<20} {statistics.median(result):>10,.0f} env steps/s ({min(result):,.0f} to {max(result):,.0f})"
        )
    return 0
