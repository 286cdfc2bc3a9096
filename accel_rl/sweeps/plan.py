"""The plan of a sweep: its runs with the resources that each asks for and gets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from accel_rl.config.train import TrainConfig
from accel_rl.sweeps import cluster
from accel_rl.sweeps.grid import Grid
from accel_rl.sweeps.layout import Layout
from accel_rl.sweeps.needs import Needs, Size, named_members
from accel_rl.sweeps.placing import check_begun, on_gpus
from accel_rl.sweeps.queue import in_order
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class Run:
    """One run of a plan. config: its configuration, with the GPUs that it gets."""

    config: TrainConfig
    needs: Needs
    size: Size

    @property
    def ranks(self) -> int:
        return self.config.distributed.size

    @property
    def shortage(self) -> tuple[str, str, str] | None:
        """If the run gets less than it asks for: (asked for, gets, sharing among its ranks), else None."""
        if self.needs.gpus > max(1, self.size.gpus):
            asked, got = counted(self.needs.gpus, "GPU"), str(self.size.gpus or "none")
        elif not self.size.gpus and self.needs.cores > self.size.cores:
            asked, got = counted(self.needs.cores, "core"), str(self.size.cores)
        else:
            return None
        if self.config.cluster == "gorila":
            return asked, got, f"{named_members(self.config)} share {self.size}"
        shared = self.ranks > (self.size.gpus or self.size.cores)
        return asked, got, f"{self.ranks} ranks share {self.size}" if shared else ""


def planned(grid: Grid, sizes: Mapping[str, Size]) -> dict[str, Run]:
    """Plan the runs of a grid in slots of these sizes. ConfigError."""
    found = {}
    for m in grid.members:
        with _of_run(m.name):
            found[m.name] = Run(on_gpus(m.config, sizes[m.name].gpus), m.needs, sizes[m.name])
    return found


def begun(configs: Mapping[str, TrainConfig], needs: Mapping[str, Needs], sizes: Mapping[str, Size]) -> dict[str, Run]:
    """Plan to resume runs that have begun, in slots of these sizes. ConfigError."""
    for name, config in configs.items():
        with _of_run(name):
            check_begun(config, sizes[name])
    return {name: Run(config, needs[name], sizes[name]) for name, config in configs.items()}


@contextmanager
def _of_run(name: str) -> Iterator[None]:
    """Add the run's name to a ConfigError."""
    try:
        yield
    except ConfigError as e:
        raise ConfigError(f"run {name}: {e}") from e


def describe(layout: Layout, runs: Mapping[str, Run]) -> list[str]:
    """Describe the machine, the slots of each size, and the runs in the order of their start, as lines."""
    names = in_order(runs, layout.sizes)
    rows = [("run", "env steps", "asks for", "gets")]
    rows += [(n, f"{runs[n].config.env_steps:,}", _asked(runs[n].needs), _got(layout, runs[n])) for n in names]
    wide = [max(len(row[i]) for row in rows) for i in range(3)]
    table = [f"  {name:<{wide[0]}}  {steps:>{wide[1]}}  {asks:<{wide[2]}}  {gets}" for name, steps, asks, gets in rows]
    at_once = max((len(layout.slots[run.size]) for run in runs.values() if run.config.address), default=0)
    clusters = cluster.describe([run.config for run in runs.values()], layout.machine, at_once)
    return [
        *layout.describe(),
        *shortages(runs.values()),
        *clusters,
        f"{counted(len(runs), 'run')}, in this order:",
        *table,
    ]


def shortages(runs: Iterable[Run]) -> list[str]:
    """Return a line for each kind of run that gets less than it asks for."""
    lines = []
    for (asked, got, sharing), n in Counter(run.shortage for run in runs if run.shortage).items():
        line = f"1 run asks for {asked} and gets {got}" if n == 1 else f"{n} runs ask for {asked} each and get {got}"
        lines.append(f"{line}: {'its' if n == 1 else 'the'} {sharing}" if sharing else line)
    return lines


def _asked(needs: Needs) -> str:
    return f"{counted(needs.gpus, 'GPU')}, " * bool(needs.gpus) + counted(needs.cores, "core")


def _got(layout: Layout, run: Run) -> str:
    cores = counted(layout.cores(run.size), "core")
    ranks = f", {run.ranks} ranks" if run.ranks > 1 else ""
    if run.config.cluster == "gorila":
        ranks = f", {named_members(run.config)}" if not run.config.address else ", the driver"
    return f"{run.size}, {cores}{ranks}" if run.size.gpus else f"{cores}{ranks}"
