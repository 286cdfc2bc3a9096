"""The machines that Gorila runs need (Nair et al. 2015): bundles and replays, divided among machines of one kind."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.train import TrainConfig
from accel_rl.envs.make import make_spec
from accel_rl.sweeps.machine import Machine
from accel_rl.sweeps.needs import named_members
from accel_rl.system.counts import counted

GIB = 2**30
SHARE_OF_MEMORY = 0.95  # what a run leaves its replays of the free memory


@dataclass(frozen=True)
class ClusterNeeds:
    """What a Gorila run needs, on all of its machines. The processes' own memory is not counted.

    cores: of each member. replay: bytes of each bundle's replay; shared: of the one global replay. is_local: Ray is
    started on the sweep's machine, for this run.
    """

    members: int
    named: str
    shards: int
    cores: float
    replay: float
    shared: float
    is_local: bool

    def here(self, machine: Machine) -> int:
        """Return the number of members that one machine holds, at most all. Local members share its cores."""
        memory = None if machine.memory is None else SHARE_OF_MEMORY * machine.memory
        by_cores = self.members if self.is_local else min(self.members, math.floor(machine.cores / self.cores))
        if memory is None or not self.replay:
            return by_cores
        return min(by_cores, math.floor(memory / self.replay))

    def describe(self, runs: int, machine: Machine) -> list[str]:
        """Describe what the runs need, and whether machines of this kind have it, as lines."""
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
        held = self.here(machine)
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
    """Return what a run needs of a cluster; None if it is no Gorila run."""
    if config.cluster != "gorila":
        return None
    g, replay = config.gorila, 0.0
    if isinstance(config.algo, ReplayAlgorithmConfig):
        on_gpu = bool(machine.gpus) and config.device != "cpu" and config.algo.replay.device != "cpu"
        if not on_gpu:
            replay = config.algo.replay.size * config.algo.replay.bytes_each(make_spec(config.env, training=True))
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


def describe(configs: Iterable[TrainConfig], machine: Machine, at_once: int) -> list[str]:
    """Describe what the Gorila runs among these need, as lines. at_once: number of runs that start at the same time."""
    known: dict[Hashable, ClusterNeeds | None] = {}
    found: Counter[ClusterNeeds] = Counter()
    for config in configs:
        kind = replace(config, env=replace(config.env, game="pong" if config.env.game else ""), seed=0)
        if kind not in known:  # games do not differ in what they need
            known[kind] = cluster_needs(config, machine)
        if (needs := known[kind]) is not None:
            found[needs] += 1
    lines = []
    for needs, runs in found.items():
        lines += needs.describe(runs, machine)
        held = 0 if needs.is_local or machine.machines == 1 else needs.here(machine)
        most = machine.machines // -(-needs.members // held) if held else 0
        if 0 < most < min(runs, at_once):
            lines.append(
                f"  {min(runs, at_once)} would start at the same time, more than the cluster holds: with "
                f"--cores-per-run {-(-machine.cores // most)} at most {most}"
            )
    return lines
