"""The trials of a search: asks for settings while slots are free, prunes, and records how each run ends."""

import time
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.folder import PRUNED, SweepFolder
from accel_rl.sweeps.grid import Grid, Member
from accel_rl.sweeps.layout import Layout, lay_out
from accel_rl.sweeps.plan import planned
from accel_rl.sweeps.prepared import prepared
from accel_rl.sweeps.search_options import SearchOptions
from accel_rl.sweeps.study import Space, Study, optuna
from accel_rl.sweeps.table import Display, View
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError

LOOK_S = 2.0
"""Seconds between two comparisons of a run's score."""


def name_of(number: int) -> str:
    """Name of a trial's run."""
    return f"trial={number:03d}"


def check(space: Space, o: SearchOptions) -> None:
    """Raise ConfigError if the settings of a first trial are impossible."""
    trial = optuna().create_study().ask()
    member = as_member(trial.number, Study.settings(space, trial), o)
    lay_out(o, {member.name: member.needs})


def as_member(number: int, config: TrainConfig, o: SearchOptions) -> Member:
    """Return a trial's run with --scale and --override. ConfigError."""
    grid = prepared(Grid((Member(config, {"trial": f"{number:03d}"}),)), o.scale, o.override)
    (member,) = grid.members
    if o.objective == "evaluation" and not member.config.evaluation.interval:
        raise ConfigError("--objective evaluation: the runs have none (--evaluation.interval 0); or --objective online")
    return member


class Trials:
    """Runs trials on the slots of this machine until there are --trials of them."""

    def __init__(self, folder: SweepFolder, study: Study, space: Space, o: SearchOptions, lock: int):
        self._folder, self._study, self._space, self._o = folder, study, space, o
        self._trials = {name_of(t.number): t for t in study.unfinished()}
        for name in [n for n in self._trials if n not in folder.names]:  # killed before the run was written
            study.failed(self._trials.pop(name))
        self._needs = {n: Member(folder.config(n)).needs for n in self._trials}
        view = View(folder)
        self.display, self._lengths = Display(view), view.lengths
        mine = {n: self._lengths[n] for n in self._trials}
        self._feeder = Feeder(folder, self._layout(), mine, o.retries, self.display.say, lock)
        self._looked = dict.fromkeys(self._trials, 0.0)

    @property
    def over(self) -> bool:
        return not self._trials and not self._wanted

    @property
    def _wanted(self) -> bool:
        return len(self._study.trials) < self._o.number

    def step(self) -> None:
        """Start and end runs, and prune some."""
        if self._wanted and self._feeder.has_room:
            self._ask()
        self._feeder.step()
        for name in list(self._trials):
            self._look(name)
        self.display.update()

    def stop(self) -> None:
        """Stop all runs; each saves a checkpoint, from which --resume continues it."""
        if self._feeder.running:
            self.display.say(f"stopping {counted(len(self._feeder.running), 'run')}, each with a checkpoint")
            self._feeder.stop()

    def _layout(self) -> Layout:
        return lay_out(self._o, self._needs)

    def _ask(self) -> None:
        trial = self._study.ask()
        name = name_of(trial.number)
        try:
            member = as_member(trial.number, Study.settings(self._space, trial), self._o)
            self._needs[name] = member.needs
            layout = self._layout()
            run = planned(Grid((member,)), layout.sizes)[name]
        except ConfigError as e:
            self._needs.pop(name, None)
            self._study.failed(trial)
            self._feeder.tell(f"{name} failed: {e}")
            return
        self._folder.add(name, run, member.labels)
        self._trials[name], self._looked[name], self._lengths[name] = trial, 0.0, run.config.env_steps
        self._feeder.add(name, run.config.env_steps, layout)

    def _look(self, name: str) -> None:
        trial, status = self._trials[name], self._folder.records[name].status
        if status == "running":
            if time.monotonic() - self._looked[name] >= LOOK_S:
                self._looked[name] = time.monotonic()
                if self._study.prunes(trial, self._folder.run(name), self._lengths[name]):
                    self._feeder.end(name, PRUNED)
            return
        if status not in ("done", "failed", PRUNED):
            return
        del self._trials[name], self._needs[name]
        self._feeder.tell(f"{name}: {self._ended(name, trial, status)}")

    def _ended(self, name: str, trial: Any, status: str) -> str:
        if status == "done":
            return self._study.ended(trial, self._folder.run(name), self._o.objective)
        if status == PRUNED:
            self._study.pruned(trial)
            return "pruned"
        self._study.failed(trial)
        return "failed"
