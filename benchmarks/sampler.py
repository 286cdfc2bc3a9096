"""Measures the speed of the sampler, of environments without inference, and of inference without environments.

    | environment_only  the environments with screen reads and preprocessing, a process on each core
    | inference_only    inference at the batch of one group (of all groups where each has its own thread), with the
    |                   fastest number of torch threads. It calls the agent; the sampler replays captured inference
    | sampling          the sampler: workers step, the action server acts
    | bound             1 / (1/environment_only + 1/inference_only): both parts share the same cores

Sampler, environments and inference are measured in turns. If options have several values, all combinations are
measured.

    | python -m benchmarks.sampler --game breakout --json OUT
    | python -m benchmarks.sampler --game breakout pong --envs-per-worker 2 4 8 16 32 64 --nets none a3c

The network `none` takes random actions without inference. Without a learner, sampling does not pause between rollouts,
unless --together makes all worker processes wait for each other every --horizon steps. The sweep
`experiments.stooke:table_1` measures several ranks with and without a barrier.
"""

import itertools
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from accel_rl.envs.make import EnvConfig, resolve_env
from accel_rl.machine import hardware
from accel_rl.planning.plan import resolve_device
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text.counts import Count
from accel_rl.text.notes import say_once
from accel_rl.training.stored_agents import check_policy
from benchmarks.harness import program
from benchmarks.harness.agents import NAMES, NETS, make_agent
from benchmarks.harness.bare import Bare
from benchmarks.harness.program import Benchmark, Build, Case
from benchmarks.harness.sampling import Inference, Sampling, cores_of, sampling_config
from benchmarks.harness.turns import Measure, Measurements, ratio

SWEPT = ("envs_per_worker", "groups", "horizon", "reset")


@dataclass(frozen=True)
class Options(program.Options):
    game: tuple[str, ...] = ("breakout",)
    """Atari games."""
    workers: tuple[int, ...] = ()
    """Number of worker processes, by default one per usable core."""
    envs_per_worker: tuple[int, ...] = (32,)
    """Number of environments of each worker, over all groups."""
    groups: tuple[int, ...] = ()
    """Number of alternating groups, by default as in training."""
    horizon: tuple[int, ...] = (20,)
    """Number of steps per rollout."""
    together: bool = False
    """Synchronise all worker processes at the end of each rollout, as before an update. Without --together, each group
    of environments continues independently if it has its own workers and thread."""
    reset: tuple[str, ...] = ("immediate",)
    """Value of --sampler.reset: immediate, wait, swap or cached."""
    nets: tuple[str, ...] = ("a3c",)
    """Networks that act: none (random actions without inference), a3c, dqn."""
    policy: str = ""
    """Run folder whose newest checkpoint acts, with the network of --nets; by default untrained weights act."""
    one_core: bool = False
    """Measure environment_only also on one core, with one process and with one process on each hyperthread (Stooke &
    Abbeel, figure 2)."""
    frame: str = "104x80"
    """Size of the picture: 104x80, 104x80-mean or 84x84."""
    backend: str = "auto"
    """Emulator that plays the games: auto, ale or emulator."""
    decorrelation_steps: Count = 300
    """Maximum number of random actions at the start of each environment."""
    seconds: float = 4.0
    """Length of one measurement in seconds."""
    device: str = "cpu"
    """Device of the network."""

    TINY: ClassVar[dict[str, Any]] = {"envs_per_worker": (2,), "horizon": (2,), "decorrelation_steps": 0}

    def check(self) -> None:
        super().check()
        self.at_least(1, "workers", "envs_per_worker", "groups", "horizon")
        self.one_of("nets", NETS)
        if self.policy:
            check_policy("--policy", self.policy)
        resolve_device(self.device)
        for config in (c for samplers in self.samplers().values() for c in samplers.values()):
            resolve(config)

    def samplers(self) -> dict[tuple[str, int | None], dict[str, TrainConfig]]:
        """Return {(game, workers): {name: settings}} for all combinations of the options' values."""
        configs: dict[tuple[str, int | None], dict[str, TrainConfig]] = {}
        values = [getattr(self, name) or (None,) for name in SWEPT]
        for game, workers in itertools.product(self.game, self.workers or (None,)):
            configs[game, workers] = {}
            for combination in itertools.product(*values):
                setting = dict(zip(SWEPT, combination, strict=True))
                varying = [f"{k.replace('_', ' ')} {setting[k]}" for k in SWEPT if len(getattr(self, k)) > 1]
                configs[game, workers][", ".join(varying)] = sampling_config(
                    game, workers=workers, frame=self.frame, backend=self.backend, device=self.device,
                    decorrelation_steps=self.decorrelation_steps, **setting,
                )  # fmt: skip
        return configs


def case(o: Options, game: str, net: str, configs: dict[str, TrainConfig], stack: ExitStack) -> Case:
    """Build the measurements of a game's samplers, of environments without inference, and of inference without
    environments."""
    samplers = {name: Sampling(config) for name, config in configs.items()}
    for s in samplers.values():
        stack.callback(s.close)
    first = next(iter(samplers.values()))
    bare = Bare(first.config.env.to_dict(), cores_of(first.placement))
    stack.callback(bare.close)
    variants: dict[str, Measure] = {}
    busy: dict[str, list[float]] = {}
    for name, s in samplers.items():
        agent = make_agent(net, s.spec, s.placement.device, o.policy)
        s.collect(agent)
        title = f"sampling, {name}" if name else "sampling"
        busy[title] = []
        variants[title] = partial(sampling, o, s, agent, busy[title])
        if net != "none":
            inference = Inference(s.sampler, agent, s.placement.torch_threads)
            variants[title.replace("sampling", "inference_only")] = inference.rate
    variants["environment_only"] = bare.measure

    named = dict(zip(busy, samplers.values(), strict=True))

    def columns(m: Measurements) -> program.Columns:
        def shares(part: str) -> dict[str, float]:
            parts = {title: m.get(title.replace("sampling", part), m.get(part)) for title in named}
            return {title: ratio(m[title], values)["of_medians"] for title, values in parts.items() if values}

        return {
            "environments": {title: s.grouping.B for title, s in named.items()},
            "workers busy": {title: statistics.median(values) for title, values in busy.items() if values},
            "MiB": {title: sum(s.memory()) for title, s in named.items()},
            "MiB, bound": {title: s.memory_bound() for title, s in named.items()},
            "late resets": {title: s.sampler.engine.late_resets() for title, s in named.items()},
        } | {f"/ {part}": shares(part) for part in ("environment_only", "bound") if len(named) > 1}

    def figures(m: Measurements) -> dict[str, Any]:
        settings = {
            title: {"B": s.grouping.B, "groups": s.grouping.groups, "T": s.sampler.T, "reset": s.config.sampler.reset}
            for title, s in named.items()
        }
        return {"cores": bare.cores, "samplers": settings}

    labels: dict[str, Any] = {"game": game, "actions": NAMES[net], "workers": first.placement.workers}
    return Case(labels, variants, derive=bounds, columns=columns, figures=figures, compared=len(named) == 1)


def sampling(o: Options, s: Sampling, agent: Any, busy: list[float], seconds: float) -> float:
    """Measure env steps/s of a sampler."""
    if o.together:
        return s.rate(agent, seconds)
    rates = s.free(agent, seconds)
    busy.append(s.busy)
    return rates


def bounds(m: Measurements) -> Measurements:
    """Return {name of a bound: upper bound of the sampler's rate in each turn}."""
    alone = m["environment_only"]
    return {
        name.replace("inference_only", "bound"): [1 / (1 / e + 1 / i) for e, i in zip(alone, values, strict=True)]
        for name, values in m.items()
        if name.startswith("inference_only")
    }


def one_core(o: Options, stack: ExitStack) -> Case:
    """Build the measurements of emulation on one core: by one process, and by one process per hyperthread (Stooke &
    Abbeel, figure 2)."""
    threads = first_core()
    processes = {"process": threads[:1]} | ({"hyperthreads": threads} if len(threads) > 1 else {})
    env = resolve_env(EnvConfig(game=o.game[0], frame=o.frame, backend=o.backend)).to_dict()
    variants = {}
    for name, cores in processes.items():
        bare = Bare(env, cores)
        stack.callback(bare.close)
        variants[name] = bare.measure
    return Case({"game": o.game[0], "actions": "one core, no inference", "workers": None}, variants)


def first_core() -> tuple[int, ...]:
    """Return the processor numbers of the hyperthreads of the first usable core. If the core has only one hyperthread,
    a message is printed."""
    core = min(hardware.usable_cores())
    threads = (core, *(t for t in hardware.hyperthreads(core) if t != core))
    if len(threads) == 1:
        say_once(f"core {threads[0]} has no second hyperthread: figure 2's dotted line is left out")
    return threads


def cases(o: Options) -> list[Build]:
    builds: list[Build] = [partial(case, o, game, net, c) for (game, _), c in o.samplers().items() for net in o.nets]
    return builds + ([partial(one_core, o)] if o.one_core else [])


main = Benchmark("sampler", __doc__, Options, cases).main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
