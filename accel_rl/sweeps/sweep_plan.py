"""The plan of a sweep: its runs with the resources that they request and are assigned, and how many machines Gorila
runs need."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.machine.machine import Machine
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import TrainConfig
from accel_rl.sweeps.grid import Grid
from accel_rl.sweeps.layout import Layout, Needs, Size, check_begun, in_order, named_members, on_gpus
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class PlannedRun:
    """A run with its requested and assigned resources. In `config`, the number of ranks matches the assigned GPUs."""

    config: TrainConfig
    needs: Needs
    size: Size

    @property
    def ranks(self) -> int:
        return self.config.distributed.size

    @property
    def shortage(self) -> tuple[str, str, str] | None:
        """Return None, or, if the run is assigned fewer GPUs or cores than it requests, three texts: the requested
        resources, the assigned resources, and how the ranks share the assigned resources."""
        if self.needs.gpus > max(1, self.size.gpus):
            asked, got = counted(self.needs.gpus, "GPU"), str(self.size.gpus or "none")
        elif not self.size.gpus and self.needs.cores > self.size.cores:
            asked, got = counted(self.needs.cores, "core"), str(self.size.cores)
        else:
            return None
        if self.config.mode.has_members:
            return asked, got, f"{named_members(self.config)} share {self.size}"
        shared = self.ranks > (self.size.gpus or self.size.cores)
        return asked, got, f"{self.ranks} ranks share {self.size}" if shared else ""


def planned(grid: Grid, sizes: Mapping[str, Size]) -> dict[str, PlannedRun]:
    """Plan the runs of a grid in slots of the given sizes."""
    result = {}
    for m in grid.members:
        with _of_run(m.name):
            result[m.name] = PlannedRun(on_gpus(m.config, sizes[m.name].gpus), m.needs, sizes[m.name])
    return result


def begun(
    configs: Mapping[str, TrainConfig], needs: Mapping[str, Needs], sizes: Mapping[str, Size]
) -> dict[str, PlannedRun]:
    """Plan the runs of a sweep that is resumed, in slots of the given sizes. Raises ConfigError if a run cannot be
    resumed in its slot."""
    for name, config in configs.items():
        with _of_run(name):
            check_begun(config, sizes[name])
    return {name: PlannedRun(config, needs[name], sizes[name]) for name, config in configs.items()}


@contextmanager
def _of_run(name: str) -> Iterator[None]:
    """A context manager that adds a run's name to the message of a ConfigError."""
    try:
        yield
    except ConfigError as e:
        raise ConfigError(f"run {name}: {e}") from e


def describe(layout: Layout, runs: Mapping[str, PlannedRun]) -> list[str]:
    """Describe the machine, the slots of each size, and the runs in the order of their start, as lines of text."""
    names = in_order(runs, layout.sizes)
    rows = [("run", "env steps", "asks for", "gets")]
    rows += [(n, f"{runs[n].config.env_steps:,}", _asked(runs[n].needs), _got(layout, runs[n])) for n in names]
    wide = [max(len(row[i]) for row in rows) for i in range(3)]
    table = [f"  {name:<{wide[0]}}  {steps:>{wide[1]}}  {asks:<{wide[2]}}  {gets}" for name, steps, asks, gets in rows]
    at_once = max((len(layout.slots[run.size]) for run in runs.values() if run.config.address), default=0)
    clusters = describe_clusters([run.config for run in runs.values()], layout.machine, at_once)
    return [
        *layout.describe(),
        *shortages(runs.values()),
        *clusters,
        f"{counted(len(runs), 'run')}, in this order:",
        *table,
    ]


def shortages(runs: Iterable[PlannedRun]) -> list[str]:
    """Return lines of text about runs that are assigned fewer GPUs or cores than they request, one line for each kind
    of shortage."""
    lines = []
    for (asked, got, sharing), n in Counter(run.shortage for run in runs if run.shortage).items():
        line = f"1 run asks for {asked} and gets {got}" if n == 1 else f"{n} runs ask for {asked} each and get {got}"
        lines.append(f"{line}: {'its' if n == 1 else 'the'} {sharing}" if sharing else line)
    return lines


def _asked(needs: Needs) -> str:
    return f"{counted(needs.gpus, 'GPU')}, " * bool(needs.gpus) + counted(needs.cores, "core")


def _got(layout: Layout, run: PlannedRun) -> str:
    cores = counted(layout.cores(run.size), "core")
    ranks = f", {run.ranks} ranks" if run.ranks > 1 else ""
    if run.config.mode.has_members:
        ranks = f", {named_members(run.config)}" if not run.config.address else ", the driver"
    return f"{run.size}, {cores}{ranks}" if run.size.gpus else f"{cores}{ranks}"


GIB = 2**30
SHARE_OF_MEMORY = 0.95  # share of the free memory that the replays of a run may use


@dataclass(frozen=True)
class ClusterNeeds:
    """The resources that a Gorila run needs on all its machines together.

    `members` and `shards` are the numbers of member and shard processes, and `named` describes the members. `cores` is
    the number of cores per member. `replay` is the size of each bundle's replay in bytes, and `shared` is the size of
    the global replay. `is_local` is true if the run starts Ray on the sweep's machine.
    """

    members: int
    named: str
    shards: int
    cores: float
    replay: float
    shared: float
    is_local: bool

    def runs_on(self, machine: Machine) -> int:
        """Return how many of the run's members fit on one machine, given its cores and memory."""
        memory = None if machine.memory is None else SHARE_OF_MEMORY * machine.memory
        by_cores = self.members if self.is_local else min(self.members, math.floor(machine.cores / self.cores))
        if memory is None or not self.replay:
            return by_cores
        return min(by_cores, math.floor(memory / self.replay))

    def describe(self, runs: int, machine: Machine) -> list[str]:
        """Describe in lines of text what `runs` Gorila runs with equal needs require, and how many machines like
        `machine` are enough."""
        each = [] if self.is_local else [counted(self.cores, "core")]
        each += [f"a replay of {self.replay / GIB:.2f} GiB"] * bool(self.replay)
        parts = [self.named + f" with {' and '.join(each)} each" * bool(each), counted(self.shards, "shard")]
        parts += [f"one replay of {self.shared / GIB:.2f} GiB"] * bool(self.shared)
        unknown = " (the machine's memory is not known)" * (machine.memory is None and bool(self.replay + self.shared))
        return [f"{counted(runs, 'run')} of {', '.join(parts)}{unknown}:", f"  {self._fit(machine)}"]

    def _fit(self, machine: Machine) -> str:
        kind = counted(machine.cores, "core")
        if machine.memory is not None:
            kind += f" and {machine.memory / GIB:.1f} GiB"
            if self.shared > SHARE_OF_MEMORY * machine.memory:
                return f"it does not fit: the replay needs {self.shared / GIB:.2f} GiB, and a machine has {kind}"
        held = self.runs_on(machine)
        if not held:
            return f"it does not fit: a machine of {kind} holds no member"
        needed = -(-self.members // held)
        shards = f"up to {counted(held, 'member')} and {counted(-(-self.shards // needed), 'shard')} each"
        if self.is_local:
            if needed > 1:
                return (
                    f"it does not fit: the replays of {held} of {self.members} members fit the machine of {kind}; a "
                    f"cluster of {needed} such machines holds them (--override address=HOST:PORT)"
                )
            return f"on this machine of {kind}"
        text = f"{counted(needed, 'machine')} of {kind}, {shards}"
        if machine.machines == 1:
            return text
        if needed > machine.machines:
            most = held * machine.machines
            return f"it does not fit: {text}, and there are {machine.machines}, which hold {counted(most, 'member')}"
        return f"{text}; there are {machine.machines}: {counted(machine.machines // needed, 'run')} at the same time"


def cluster_needs(config: TrainConfig, machine: Machine) -> ClusterNeeds | None:
    """Return the resources that a Gorila run needs on its cluster, or None for other runs."""
    if not config.mode.has_members:
        return None
    g, replay = config.gorila, 0.0
    if isinstance(config.algo, ReplayAlgorithmConfig):
        on_gpu = bool(machine.gpus) and config.device != "cpu" and config.algo.replay.device != "cpu"
        if not on_gpu:
            replay = config.algo.replay.size * config.algo.replay.bytes_each(fill_in(config).spec)
    is_global = g.replay == "global"
    return ClusterNeeds(
        g.members,
        named_members(config),
        g.shards,
        g.bundle_cpus or 1.0,
        0.0 if is_global else replay,
        replay if is_global else 0.0,
        not config.address,
    )


def describe_clusters(configs: Iterable[TrainConfig], machine: Machine, at_once: int) -> list[str]:
    """Describe in lines of text the resources that the Gorila runs among `configs` need. `at_once` is the number of
    runs that start at the same time."""
    known: dict[Hashable, ClusterNeeds | None] = {}
    result: Counter[ClusterNeeds] = Counter()
    for config in configs:
        kind = replace(config, env=replace(config.env, game="pong" if config.env.game else ""), seed=0)
        if kind not in known:  # Runs that differ only in the game and the seed need equal resources.
            known[kind] = cluster_needs(config, machine)
        if (needs := known[kind]) is not None:
            result[needs] += 1
    lines = []
    for needs, runs in result.items():
        lines += needs.describe(runs, machine)
        held = 0 if needs.is_local or machine.machines == 1 else needs.runs_on(machine)
        most = machine.machines // -(-needs.members // held) if held else 0
        if 0 < most < min(runs, at_once):
            lines.append(
                f"  {min(runs, at_once)} would start at the same time, more than the cluster holds: with "
                f"--cores-per-run {-(-machine.cores // most)} at most {most}"
            )
    return lines
