"""The command `accel-rl search` searches for good settings with Optuna. Each trial is a training run in a slot of this
machine.

    accel-rl search my_spaces:pong_ppo --trials 50
    accel-rl search my_spaces.py:pong_ppo --trials 50 --gpus 0-7 --override env-steps=1e6
    accel-rl search --resume FOLDER --trials 100

A search space is a function of an `optuna.Trial` that returns the settings of a run (examples: experiments/spaces.py).
The score of a trial is that of its run's last evaluation, or with --evaluation.interval 0 the mean over the last 100
training episodes. A run is pruned (ended early) if its online score is below the median of the other runs at the same
number of env steps.

The exit code is 0 if all trials have ended, 1 if no trial has a score, 2 for wrong settings, and 130 after Ctrl-C.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from accel_rl.parsing.arguments import parse, positionals, stdout
from accel_rl.settings.registry import find
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.trust import TrustOptions, check_trust
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.grid import Grid, Member, prepared
from accel_rl.sweeps.layout import Placing, lay_out, placing
from accel_rl.sweeps.study import Study, named, optuna
from accel_rl.sweeps.sweep_display import Display, View
from accel_rl.sweeps.sweep_folder import PRUNED, SweepFolder
from accel_rl.sweeps.sweep_plan import planned
from accel_rl.text import output
from accel_rl.text.counts import Count, OptionalCount, counted
from accel_rl.text.errors import ConfigError, ended
from accel_rl.training.signals import StopRequest

Space = Callable[[Any], TrainConfig]
"""A search space is a function that returns the settings of a run, with values from the `suggest_...` methods of an
`optuna.Trial`."""
TRIALS = 20
STORED = ("override", "scale", "trials")
"""Options that --resume reads from the search's folder."""
COMPARE_S = 2.0
"""Seconds between two comparisons of the runs' online scores with those of other runs."""
LOOK_S = 0.2
SHOWN = 5
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SearchOptions(Placing, TrustOptions):
    out: str = ""
    """Folder that the search creates, by default runs/NAME-TIME."""
    trials: OptionalCount = None
    """Total number of trials, by default 20."""
    override: tuple[str, ...] = ()
    """Settings of every run, as on the command line of accel-rl train, such as env-steps=20000 sampler.envs=8."""
    scale: float = 1.0
    """Factor by which each run's length, intervals, replay and epsilon schedule are multiplied."""
    retries: Count = 2
    """Number of times that a failed run is restarted from its checkpoint."""
    resume: str = ""
    """Resume the search in this folder."""


class Search:
    """The trials of a search, as runs in the slots of this machine."""

    def __init__(self, folder: SweepFolder, space: Space, o: SearchOptions, lock: int):
        self._folder, self._space, self._o = folder, space, o
        self.study = Study(folder.path)
        self._running = {name_of(trial): trial for trial in self.study.unfinished()}
        # If the search was killed, some trials may have no run folder.
        for name in [name for name in self._running if name not in folder.names]:
            self.study.end(self._running.pop(name), "fail")
        self._configs = {name: folder.config(name, o.trust) for name in self._running}
        self.display = Display(View(folder))
        layout, lengths = lay_out(o, self._needs()), {name: c.env_steps for name, c in self._configs.items()}
        self._feeder = Feeder(folder, layout, lengths, o.retries, lock)
        self._compared = 0.0

    def _needs(self, **more: Member) -> dict[str, Any]:
        return {
            name: member.needs for name, member in ({n: Member(c) for n, c in self._configs.items()} | more).items()
        }

    @property
    def over(self) -> bool:
        return not self._running and len(self.study.trials()) >= (self._o.trials or 0)

    def step(self) -> None:
        """Start waiting trials, record ended trials, and prune trials with low scores."""
        if len(self.study.trials()) < (self._o.trials or 0) and self._feeder.has_room:
            self._ask()
        self._feeder.step()
        if compares := time.monotonic() - self._compared >= COMPARE_S:
            self._compared = time.monotonic()
        for name, trial in list(self._running.items()):
            run, status, config = self._folder.run(name), self._folder.records[name].status, self._configs[name]
            if status == "running" and compares and self.study.prunes(trial, run, config.env_steps):
                self._feeder.end(name, PRUNED)
            if status in ("done", "failed", PRUNED):
                del self._running[name], self._configs[name]
                if status == "done":
                    said = self.study.ended(trial, run, "eval_score" if config.evaluation.interval else "score")
                else:
                    self.study.end(trial, "pruned" if status == PRUNED else "fail")
                    said = status
                logger.info(f"{name}: {said}")
        self.display.update()

    def _ask(self) -> None:
        trial = self.study.ask()
        name = name_of(trial)
        try:
            member = as_member(trial, self._space, self._o)
            layout = lay_out(self._o, self._needs(**{name: member}))
            run = planned(Grid((member,)), layout.sizes)[name]
        except ConfigError as e:
            self.study.end(trial, "fail")
            logger.info(f"{name} failed: {e}")
            return
        self._folder.add(name, run, member.labels)
        self._running[name], self._configs[name] = trial, run.config
        self.display.view.lengths[name] = run.config.env_steps
        self._feeder.add(name, run.config.env_steps, layout)

    def stop(self) -> None:
        """Stop the runs of all trials; each run saves a checkpoint, from which --resume continues the run."""
        if self._feeder.running:
            self.display.say(f"stopping {counted(len(self._feeder.running), 'run')}, each with a checkpoint")
            self._feeder.stop()
        with contextlib.suppress(OSError):
            self.display.update(force=True)

    def report(self) -> bool:
        """Print the best trials, and return whether there is one."""
        states = [t.state.name.lower() for t in self.study.trials()]
        stdout(
            f"{counted(len(states), 'trial')}: " + ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
        )
        best = self.study.best(SHOWN)
        for t in best:
            values = "  ".join(f"{k}={named(v)}" for k, v in t.params.items())
            stdout(f"  {t.value:>8.4g}  {self._folder.run(name_of(t))}  {values}")
        return bool(best)


def name_of(trial: Any) -> str:
    return f"trial={trial.number:03d}"


def as_member(trial: Any, space: Space, o: SearchOptions) -> Member:
    """Return the run of a trial, with --scale and --override applied to the settings that the space returns. Raises
    ConfigError if the settings are impossible."""
    try:
        config = space(trial)
    except ValueError as e:
        raise ConfigError(str(e)) from e
    if not isinstance(config, TrainConfig):
        raise ConfigError(f"the space returns {type(config).__name__}, not a TrainConfig")
    return prepared(Grid((Member(config, {"trial": f"{trial.number:03d}"}),)), o.scale, o.override).members[0]


def check(space: Space, o: SearchOptions) -> None:
    """Raise ConfigError if the settings that the search space returns for a first trial are impossible."""
    member = as_member(optuna().create_study().ask(), space, o)
    lay_out(o, {member.name: member.needs})


def begun(words: list[str], o: SearchOptions) -> tuple[SweepFolder, str, SearchOptions]:
    """Return the folder, the search space and the options of a new search, or of a search to resume."""
    default = SearchOptions()
    if not o.resume:
        if not words:
            raise ConfigError("--resume needs a search's folder, and got ''")
        path = Path("runs") / f"{words[0].rpartition(':')[2]}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = SweepFolder(Path(o.out).expanduser() if o.out else path)
        folder.check_new()
        return folder, words[0], replace(o, trials=TRIALS if o.trials is None else o.trials)
    folder = SweepFolder(Path(o.resume).expanduser())
    if "search" not in (plan := folder.plan):
        raise ConfigError(f"{folder.path} is a sweep: accel-rl sweep --resume {folder.path}")
    check_trust({plan["experiment"]: "the search space"}, o.trust)
    folder.check_free()
    for name in ("override", "scale"):
        if getattr(o, name) != getattr(default, name):
            raise ConfigError(f"--resume continues a search as it was begun; leave out --{name}")
    stored = {"trials": plan["search"]["trials"], **plan["placing"]}
    kept = {name: value for name, value in stored.items() if getattr(o, name) == getattr(default, name)}
    return (
        folder,
        plan["experiment"],
        replace(o, **kept, scale=plan["search"]["scale"], override=tuple(plan["search"]["override"])),
    )


def search(argv: list[str]) -> int:
    resuming = any(a == "--resume" or a.startswith("--resume=") for a in argv)
    words, options = positionals(argv, [] if resuming else ["the space (module:function)"], "accel-rl search")
    o = parse(SearchOptions, options, "accel-rl search SPACE", __doc__ or "")
    optuna()
    folder, name, o = begun(words, o)
    if not o.trials:
        raise ConfigError(f"--trials {o.trials}: must be at least 1")
    if not callable(space := find(name, "search space")):
        raise ConfigError(f"{name!r} is no function of an optuna.Trial that returns the settings of a run")
    check(space, o)
    with folder.locked() as lock:
        stored = {name: getattr(o, name) for name in STORED}
        plan = {"experiment": name, "placing": placing(o), "slurm": False, "search": stored}
        if o.resume:
            folder.write("sweep.json", {**folder.plan, **plan})
        else:
            folder.check_unwritten()
            folder.create({}, {}, plan)
        return run(folder, space, o, lock)


def run(folder: SweepFolder, space: Space, o: SearchOptions, lock: int) -> int:
    """Run the requested number of trials, and return the exit code of the search."""
    trials = Search(folder, space, o, lock)
    with trials.display as display, StopRequest() as stop, output.written(display.event, display.event):
        try:
            while not (trials.over or stop):
                trials.step()
                time.sleep(LOOK_S)
        finally:  # Stop all runs when the search ends.
            trials.stop()
    has_score = trials.report()
    if stop:
        path = quote(str(folder.path))
        stdout(f"next: accel-rl search --resume {path} --trust    continue with the remaining trials")
        return stop.exit_code
    stdout(f"next: accel-rl report {quote(str(folder.path))}")
    return 0 if has_score else 1


def main(argv: list[str]) -> int:
    """Return the exit code: 0 done, 1 no trial has a score, 2 wrong settings, 130 stopped by Ctrl-C."""
    return ended("accel-rl search", search, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
