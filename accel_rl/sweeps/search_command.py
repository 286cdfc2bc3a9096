"""The command `accel-rl search` searches for good settings with Optuna. Each trial is a training run on some of this
machine's cores and GPUs.

    accel-rl search my_spaces.py:pong_ppo --trials 50 --gpus 0-7 --override env-steps=1e6
    accel-rl search --resume FOLDER --trials 100

A search space is a function of an `optuna.Trial` that returns the settings of a run (examples: experiments/spaces.py).
The score of a trial is that of its run's last evaluation, or with --evaluation.interval 0 the mean over the last 100
training episodes. A run is pruned (ended early) if its online score is below the median of the other runs at the same
number of env steps. The file study.log is Optuna's journal of all trials.

The exit code is 0 if all trials have ended, 1 if no trial has a score, 2 for wrong settings, and 130 after Ctrl-C.
"""

import importlib.util
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from accel_rl.files.durable_files import refuse_link
from accel_rl.metrics.plot import read_columns
from accel_rl.parsing.arguments import parse, positionals, stdout
from accel_rl.settings.registry import find
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.trust import check_trust
from accel_rl.sweeps import idle, mps
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.grid import Grid, GridMember, prepared
from accel_rl.sweeps.layout import Layout, RunOptions, lay_out, needs_of, placing
from accel_rl.sweeps.sweep_display import Display, View
from accel_rl.sweeps.sweep_folder import PRUNED, SweepFolder
from accel_rl.sweeps.sweep_plan import planned
from accel_rl.text import output
from accel_rl.text.counts import Count, counted
from accel_rl.text.errors import ConfigError
from accel_rl.training.signals import StopRequest

Space = Callable[[Any], TrainConfig]
PERIODS, WARM_UP, FIRST_TRIALS = 20, 4, 5
"""A run's score is compared PERIODS times during the run. No run is pruned in its first WARM_UP periods, or before
FIRST_TRIALS runs have ended."""
LOOK_S = 0.5
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SearchOptions(RunOptions):
    trials: Count = 20
    """Total number of trials."""
    resume: str = ""
    """Resume the search in this folder."""


class Search:
    """The trials of a search, which are runs in slots of this machine. `layout` has a slot for a first trial."""

    def __init__(self, folder: SweepFolder, space: Space, o: SearchOptions, layout: Layout, lock: int):
        self._folder, self._space, self._o, self._layout = folder, space, o, layout
        refuse_link(folder.path / "study.log")
        self._optuna, self._study = open_study(folder.path / "study.log")
        trials = [self._optuna.Trial(self._study, t._trial_id) for t in self._study.trials if not t.state.is_finished()]
        self._running = {name_of(trial): trial for trial in trials}
        for name in self._running.keys() - set(folder.names):
            self._end(name, "fail: the search was killed before the run had a folder")
        self._needs = {name: needs_of(folder.config(name, o.trust)) for name in self._running}
        self.display = Display(View(folder))
        self._lengths = self.display.view.lengths
        runs = {name: self._lengths[name] for name in self._needs}
        self._feeder = Feeder(folder, lay_out(o, self._needs), runs, o.retries, lock)

    def run(self, stop: StopRequest) -> None:
        """Run trials until --trials have ended, or until `stop` is set. When `stop` is set, running trials save a
        checkpoint and end."""
        try:
            while not stop and (self._running or len(self._study.trials) < self._o.trials):
                self._step()
                time.sleep(LOOK_S)
        finally:
            self._feeder.stop()

    def _step(self) -> None:
        has_slot = not self._feeder.waiting and len(self._running) < self._layout.most_runs
        if has_slot and len(self._study.trials) < self._o.trials:
            self._ask()
        self._feeder.step()
        self.display.update()
        for name in list(self._running):
            status = self._folder.records[name].status
            if status == "running" and self._is_bad(name):
                self._feeder.end(name, PRUNED)
            elif status == "done":
                columns = read_columns(self._folder.run(name), "env_steps", ("score", "eval_score"))
                scores = [float(y[-1]) for _, y in columns.values() if y.size]
                self._end(name, "complete" if scores else "fail: no score", *scores[-1:])
            elif status in ("failed", PRUNED):
                self._end(name, "pruned" if status == PRUNED else "fail")

    def _ask(self) -> None:
        trial = self._study.ask()
        self._running[name := name_of(trial)] = trial
        try:
            member = as_member(trial, self._space, self._o)
            layout = lay_out(self._o, self._needs | {name: member.needs})
            run = planned(Grid((member,)), layout.sizes)[name]
        except ConfigError as e:
            return self._end(name, f"fail: {e}")
        self._folder.add(name, run, member.labels)
        self._needs[name], self._layout = member.needs, layout
        self._lengths[name] = run.config.env_steps
        self._feeder.add(name, run.config.env_steps, layout)

    def _is_bad(self, name: str) -> bool:
        """Report the run's score to Optuna once per period, and return whether it is below the median of the other
        runs."""
        now, trial = self.display.view.progress(name), self._running[name]
        period = PERIODS * now.env_steps // self._lengths[name]
        last = self._study.get_trials(deepcopy=False)[trial.number].last_step or 0
        if not last < period < PERIODS or math.isnan(now.score):
            return False
        trial.report(now.score, period)
        return bool(trial.should_prune())

    def _end(self, name: str, result: str, score: float | None = None) -> None:
        """Record that a trial has ended. `result` is the name of Optuna's trial state, optionally followed by a colon
        and the reason."""
        state = self._optuna.trial.TrialState[result.partition(":")[0].upper()]
        self._study.tell(self._running.pop(name), score, state)
        logger.info(f"{name}: {result}{f', score {score:.4g}' if score is not None else ''}")

    def report(self) -> bool:
        """Print the best trials, and return whether any trial has a score."""
        states = Counter(t.state.name.lower() for t in self._study.trials)
        stdout(f"{counted(states.total(), 'trial')}: " + ", ".join(f"{n} {state}" for state, n in states.items()))
        complete = sorted((t for t in self._study.trials if t.state.name == "COMPLETE"), key=lambda t: -t.value)
        for t in complete[:5]:
            values = "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in t.params.items())
            stdout(f"  {t.value:>8.4g}  {self._folder.run(name_of(t))}  {values}")
        return bool(complete)


def open_study(file: Path | None) -> tuple[Any, Any]:
    """Import Optuna, and create or load a study in a journal file, or create a study in memory. Higher scores are
    better. Return the module optuna and the study. Raises ConfigError if Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("Optuna is not installed: pip install 'accel_rl[search]'")
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna, optuna.create_study(
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(file))) if file else None,
        sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True),  # New trials avoid settings of running trials.
        pruner=optuna.pruners.MedianPruner(FIRST_TRIALS, WARM_UP + 1),
        study_name="search", direction="maximize", load_if_exists=True,
    )  # fmt: skip


def name_of(trial: Any) -> str:
    return f"trial={trial.number:03d}"


def as_member(trial: Any, space: Space, o: SearchOptions) -> GridMember:
    """Return the run of a trial: the settings that the search space returns, with --scale and --override applied.
    Raises ConfigError if the settings are impossible."""
    try:
        config = space(trial)
    except ValueError as e:
        raise ConfigError(str(e)) from e
    if not isinstance(config, TrainConfig):
        raise ConfigError(f"the space returns {type(config).__name__}, not a TrainConfig")
    return prepared(Grid((GridMember(config, {"trial": f"{trial.number:03d}"}),)), o).members[0]


def check(space: Space, o: SearchOptions) -> Layout:
    """Divide the machine into slots for a first trial. Raises ConfigError if the trial's settings are impossible."""
    member = as_member(open_study(None)[1].ask(), space, o)
    return lay_out(o, {member.name: member.needs})


def search(argv: list[str]) -> int:
    resuming = any(a.partition("=")[0] == "--resume" for a in argv)
    words, options = positionals(argv, [] if resuming else ["the space (module:function)"], "accel-rl search")
    o = parse(SearchOptions, options, "accel-rl search SPACE", __doc__ or "")
    if resuming:
        if not o.resume:
            raise ConfigError("--resume needs a search's folder, and got ''")
        folder = SweepFolder(Path(o.resume).expanduser())
        if "script" in (plan := folder.plan):
            raise ConfigError(f"{folder.path} has scripts: accel-rl launch --resume {folder.path}")
        if "search" not in plan:
            raise ConfigError(f"{folder.path} is a sweep: accel-rl sweep --resume {folder.path}")
        stored = plan["placing"] | plan["search"] | {"override": tuple(plan["search"]["override"])}
        name, begun = plan["experiment"], SearchOptions(**stored)
        check_trust({name: "the search space"}, o.trust)
        o = parse(SearchOptions, options, "accel-rl search", "", begun)
        if (o.override, o.scale) != (begun.override, begun.scale):
            raise ConfigError("--resume continues a search as it was begun; leave out --override and --scale")
    else:
        name, folder = words[0], SweepFolder.new(o.out, words[0])
    if o.trials < 1:
        raise ConfigError(f"--trials {o.trials}: must be at least 1")
    if not callable(space := find(name, "search space")):
        raise ConfigError(f"{name!r} is no function of an optuna.Trial that returns the settings of a run")
    layout = check(space, o)
    with folder.locked() as lock:
        if o.idle:
            idle.use_idle_time()
        search = {"trials": o.trials, "override": o.override, "scale": o.scale}
        plan = {"experiment": name, "placing": placing(o), "slurm": False, "search": search}
        if resuming:
            folder.write("sweep.json", folder.plan | plan)
        else:
            folder.create({}, {}, plan)
        trials = Search(folder, space, o, layout, lock)
        with (
            trials.display as display,
            StopRequest() as stop,
            output.written(display.event, display.event),
            mps.shared_gpus(layout, display.event, o.mps),
        ):
            trials.run(stop)
    has_score, path = trials.report(), quote(str(folder.path))
    remaining = f"search --resume {path} --trust    continue with the remaining trials"
    stdout(f"next: accel-rl {remaining if stop else f'report {path}'}")
    return stop.exit_code or int(not has_score)
