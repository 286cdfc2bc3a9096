"""Search for good settings by Optuna: each trial is a run, on the slots of this machine.

    accel-rl search my_spaces:pong_ppo --trials 50
    accel-rl search my_spaces.py:pong_ppo --trials 50 --gpus 0-7 --override env-steps=1e6
    accel-rl search --resume FOLDER --trials 100

A space is a function of an `optuna.Trial` that returns the settings of a run; experiments/spaces.py has some. A run
whose online score is below the median of the others' at the same number of env steps is pruned: it ends early.

Exit codes: 0 all trials have ended, 1 none has a score, 2 bad input (nothing was started), 130 stopped by Ctrl-C.
"""

import contextlib
import sys
import time
from pathlib import Path

from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.config.registry import find
from accel_rl.runners.signals import StopRequest
from accel_rl.sweeps.folder import SweepFolder
from accel_rl.sweeps.placing import placing
from accel_rl.sweeps.search_options import SearchOptions
from accel_rl.sweeps.study import Space, Study, named, optuna
from accel_rl.sweeps.trials import Trials, check, name_of
from accel_rl.system.command import ended
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError

LOOK_S = 0.2
SHOWN = 5


def begun(words: list[str], o: SearchOptions) -> tuple[SweepFolder, str, SearchOptions]:
    """Return the folder, the space and the options of a new search, or of the one to resume. ConfigError."""
    if not o.resume:
        default = Path("runs") / f"{words[0].rpartition(':')[2]}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = SweepFolder(Path(o.out).expanduser() if o.out else default)
        folder.check_new()
        return folder, words[0], o
    folder = SweepFolder(Path(o.resume).expanduser())
    plan = folder.plan
    if "search" not in plan:
        raise ConfigError(f"{folder.path} is a sweep: accel-rl sweep --resume {folder.path}")
    folder.check_free()
    return folder, plan["experiment"], o.resumed(plan["search"], plan["placing"])


def search(argv: list[str]) -> int:
    resuming = any(a == "--resume" or a.startswith("--resume=") for a in argv)
    words, options = positionals(argv, [] if resuming else ["the space (module:function)"], "accel-rl search")
    o = parse(SearchOptions, options, "accel-rl search SPACE", __doc__ or "")
    optuna()
    folder, name, o = begun(words, o)
    o.check()
    if not callable(space := find(name)):
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
    """Run trials until there are as many as wanted; returns the exit code."""
    study = Study(folder.path, o.sampler, o.pruner, o.sampler_seed)
    trials = Trials(folder, study, space, o, lock)
    with trials.display as display, StopRequest() as stop:
        try:
            while not (trials.over or stop):
                trials.step()
                time.sleep(LOOK_S)
        finally:  # no run outlives the search
            trials.stop()
            with contextlib.suppress(OSError):
                display.update(force=True)
    best = study.best(SHOWN)
    states = [t.state.name.lower() for t in study.trials]
    stdout(f"{counted(len(states), 'trial')}: " + ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states)))
    for t in best:
        values = "  ".join(f"{k}={named(v)}" for k, v in t.params.items())
        stdout(f"  {t.value:>8.4g}  {folder.run(name_of(t.number))}  {values}")
    if stop:
        stdout(f"next: accel-rl search --resume {folder.path}    continue with the remaining trials")
        return stop.exit_code
    stdout(f"next: accel-rl report {folder.path}")
    return 0 if best else 1


def main(argv: list[str]) -> int:
    """Exit codes: 0 done, 1 no trial has a score, 2 bad input, 130 stopped."""
    return ended("accel-rl search", search, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
