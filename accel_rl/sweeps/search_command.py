"""The command `accel-rl search` searches for good settings with Optuna. Each trial is a training run in a slot of this
machine.

    accel-rl search my_spaces:pong_ppo --trials 50
    accel-rl search my_spaces.py:pong_ppo --trials 50 --gpus 0-7 --override env-steps=1e6
    accel-rl search --resume FOLDER --trials 100

A search space is a function of an `optuna.Trial` that returns the settings of a run (examples: experiments/spaces.py).
A run is pruned (ended early) if its online score is below the median of the other runs at the same number of env steps.

The exit code is 0 if all trials have ended, 1 if no trial has a score, 2 for wrong settings, and 130 after Ctrl-C.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from accel_rl.parsing.arguments import parse, positionals, stdout
from accel_rl.settings.registry import find
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.trust import TrustOptions, check_trust
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.grid import Grid, Member, prepared
from accel_rl.sweeps.layout import Placing, lay_out, placing
from accel_rl.sweeps.study import Pruner, Sampler, Study, named, optuna
from accel_rl.sweeps.sweep_display import Display, View
from accel_rl.sweeps.sweep_folder import PRUNED, SweepFolder
from accel_rl.sweeps.sweep_plan import planned
from accel_rl.text import output
from accel_rl.text.counts import Count, OptionalCount, counted
from accel_rl.text.errors import ConfigError, ended
from accel_rl.training.signals import StopRequest

TRIALS = 20
CHANGEABLE = ("out", "resume", "trials", "retries", "trust")


@dataclass(frozen=True)
class SearchOptions(Placing, TrustOptions):
    out: str = ""
    """Folder that the search creates, by default runs/NAME-TIME."""
    trials: OptionalCount = None
    """Total number of trials, by default 20."""
    objective: Literal["evaluation", "online"] = "evaluation"
    """Score that the search maximizes. With `evaluation`, the score is that of a run's last evaluation. With `online`,
    the score is the mean over a run's last 100 training episodes."""
    pruner: Pruner = "median"
    """Rule that ends bad runs early. With `median`, a run ends if its online score is below the median of the other
    runs. With `none`, all runs continue to their end."""
    sampler: Sampler = "tpe"
    """Method that chooses a trial's settings. With `tpe`, settings are chosen by the scores of earlier trials
    (tree-structured Parzen estimator). With `random`, each trial's settings are drawn independently."""
    sampler_seed: Count = 0
    """Seed of the Optuna sampler that draws the settings."""
    override: tuple[str, ...] = ()
    """Settings of every run, as on the command line of accel-rl train, such as env-steps=20000 sampler.envs=8."""
    scale: float = 1.0
    """Factor by which each run's length, intervals, replay and epsilon schedule are multiplied."""
    retries: Count = 2
    """Number of times that a failed run is restarted from its checkpoint."""
    resume: str = ""
    """Resume the search in this folder."""

    @property
    def number(self) -> int:
        """Return the number of trials of the search."""
        return TRIALS if self.trials is None else self.trials

    def check(self) -> None:
        if self.number < 1:
            raise ConfigError(f"--trials {self.trials}: must be at least 1")

    def stored(self) -> dict[str, Any]:
        """Return the contents of search.json, which --resume reads."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*placing(self), *CHANGEABLE)}
        return {**values, "override": list(self.override), "trials": self.number}

    def resumed(self, stored: dict[str, Any], placed: dict[str, Any]) -> "SearchOptions":
        """Return the options of a resumed search. Raises ConfigError if an option that must not change differs from the
        stored one."""
        default = SearchOptions()
        for name in stored:
            if name not in CHANGEABLE and getattr(self, name) != getattr(default, name):
                raise ConfigError(f"--resume continues a search as it was begun; leave out --{name.replace('_', '-')}")
        kept = {k: v for k, v in placed.items() if getattr(self, k) == getattr(default, k)}
        trials = stored["trials"] if self.trials is None else self.trials
        return replace(self, **kept, **{**stored, "override": tuple(stored["override"]), "trials": trials})


logger = logging.getLogger(__name__)
Space = Callable[[Any], TrainConfig]
"""A search space is a function that returns the settings of a run, with values from the `suggest_...` methods of an
`optuna.Trial`."""
COMPARE_S = 2.0
"""Seconds between two comparisons of the runs' online scores with those of other runs."""


def name_of(trial: Any) -> str:
    return f"trial={trial.number:03d}"


def check(space: Space, o: SearchOptions) -> None:
    """Raise ConfigError if the settings that the search space returns for a first trial are impossible."""
    member = as_member(optuna().create_study().ask(), space, o)
    lay_out(o, {member.name: member.needs})


def as_member(trial: Any, space: Space, o: SearchOptions) -> Member:
    """Return the run of a trial, with --scale and --override applied to the settings that the space returns. Raises
    ConfigError if the settings are impossible."""
    try:
        config = space(trial)
    except ValueError as e:
        raise ConfigError(str(e)) from e
    if not isinstance(config, TrainConfig):
        raise ConfigError(f"the space returns {type(config).__name__}, not a TrainConfig")
    (member,) = prepared(Grid((Member(config, {"trial": f"{trial.number:03d}"}),)), o.scale, o.override).members
    if o.objective == "evaluation" and not member.config.evaluation.interval:
        raise ConfigError("--objective evaluation: the runs have none (--evaluation.interval 0); or --objective online")
    return member


class Trials:
    """`Trials` runs a search's trials in the slots of this machine, up to the number of --trials."""

    def __init__(self, folder: SweepFolder, study: Study, space: Space, o: SearchOptions, lock: int):
        self._folder, self._study, self._space, self._o = folder, study, space, o
        self._trials = {name_of(trial): trial for trial in study.unfinished()}
        # If the search was killed, some trials may have no run folder.
        for name in [name for name in self._trials if name not in folder.names]:
            study.end(self._trials.pop(name), "fail")
        self._needs = {name: Member(folder.config(name, o.trust)).needs for name in self._trials}
        view = View(folder)
        self.display, self._lengths = Display(view), view.lengths
        lengths = {name: view.lengths[name] for name in self._trials}
        self._feeder = Feeder(folder, lay_out(o, self._needs), lengths, o.retries, lock)
        self._compared = 0.0

    @property
    def over(self) -> bool:
        return not self._trials and len(self._study.trials()) >= self._o.number

    def step(self) -> None:
        """Start waiting trials, record ended trials, and prune trials with low scores."""
        if len(self._study.trials()) < self._o.number and self._feeder.has_room:
            self._ask()
        self._feeder.step()
        if compares := time.monotonic() - self._compared >= COMPARE_S:
            self._compared = time.monotonic()
        for name, trial in list(self._trials.items()):
            run, status = self._folder.run(name), self._folder.records[name].status
            if status == "running" and compares and self._study.prunes(trial, run, self._lengths[name]):
                self._feeder.end(name, PRUNED)
            if status in ("done", "failed", PRUNED):
                del self._trials[name], self._needs[name]
                if status == "done":
                    said = self._study.ended(trial, run, self._o.objective)
                else:
                    self._study.end(trial, "pruned" if status == PRUNED else "fail")
                    said = status
                logger.info(f"{name}: {said}")
        self.display.update()

    def stop(self) -> None:
        """Stop the runs of all trials; each run saves a checkpoint, from which --resume continues the run."""
        if self._feeder.running:
            self.display.say(f"stopping {counted(len(self._feeder.running), 'run')}, each with a checkpoint")
            self._feeder.stop()

    def _ask(self) -> None:
        trial = self._study.ask()
        name = name_of(trial)
        try:
            member = as_member(trial, self._space, self._o)
            layout = lay_out(self._o, {**self._needs, name: member.needs})
            run = planned(Grid((member,)), layout.sizes)[name]
        except ConfigError as e:
            self._study.end(trial, "fail")
            logger.info(f"{name} failed: {e}")
            return
        self._folder.add(name, run, member.labels)
        self._trials[name], self._needs[name], self._lengths[name] = trial, member.needs, run.config.env_steps
        self._feeder.add(name, run.config.env_steps, layout)


LOOK_S = 0.2
SHOWN = 5


def begun(words: list[str], o: SearchOptions) -> tuple[SweepFolder, str, SearchOptions]:
    """Return the folder, the search space and the options of a new search, or of a search to resume."""
    if not o.resume:
        if not words:
            raise ConfigError("--resume needs a search's folder, and got ''")
        default = Path("runs") / f"{words[0].rpartition(':')[2]}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = SweepFolder(Path(o.out).expanduser() if o.out else default)
        folder.check_new()
        return folder, words[0], o
    folder = SweepFolder(Path(o.resume).expanduser())
    plan = folder.plan
    if "search" not in plan:
        raise ConfigError(f"{folder.path} is a sweep: accel-rl sweep --resume {folder.path}")
    check_trust({plan["experiment"]: "the search space"}, o.trust)
    folder.check_free()
    return folder, plan["experiment"], o.resumed(plan["search"], plan["placing"])


def search(argv: list[str]) -> int:
    resuming = any(a == "--resume" or a.startswith("--resume=") for a in argv)
    words, options = positionals(argv, [] if resuming else ["the space (module:function)"], "accel-rl search")
    o = parse(SearchOptions, options, "accel-rl search SPACE", __doc__ or "")
    optuna()
    folder, name, o = begun(words, o)
    o.check()
    if not callable(space := find(name, "search space")):
        raise ConfigError(f"{name!r} is no function of an optuna.Trial that returns the settings of a run")
    check(space, o)
    with folder.locked() as lock:
        plan = {"experiment": name, "placing": placing(o), "slurm": False, "search": o.stored()}
        if o.resume:
            folder.write("sweep.json", {**folder.plan, **plan})
        else:
            folder.check_unwritten()
            folder.create({}, {}, plan)
        return run(folder, space, o, lock)


def run(folder: SweepFolder, space: Space, o: SearchOptions, lock: int) -> int:
    """Run the requested number of trials, and return the exit code of the search."""
    study = Study(folder.path, o.sampler, o.pruner, o.sampler_seed)
    trials = Trials(folder, study, space, o, lock)
    with trials.display as display, StopRequest() as stop, output.written(display.event, display.event):
        try:
            while not (trials.over or stop):
                trials.step()
                time.sleep(LOOK_S)
        finally:  # Stop all runs when the search ends.
            trials.stop()
            with contextlib.suppress(OSError):
                display.update(force=True)
    best = study.best(SHOWN)
    states = [t.state.name.lower() for t in study.trials()]
    stdout(f"{counted(len(states), 'trial')}: " + ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states)))
    for t in best:
        values = "  ".join(f"{k}={named(v)}" for k, v in t.params.items())
        stdout(f"  {t.value:>8.4g}  {folder.run(name_of(t))}  {values}")
    if stop:
        path = quote(str(folder.path))
        stdout(f"next: accel-rl search --resume {path} --trust    continue with the remaining trials")
        return stop.exit_code
    stdout(f"next: accel-rl report {quote(str(folder.path))}")
    return 0 if best else 1


def main(argv: list[str]) -> int:
    """Return the exit code: 0 done, 1 no trial has a score, 2 wrong settings, 130 stopped by Ctrl-C."""
    return ended("accel-rl search", search, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
