"""Hyperparameter searches by Optuna, with real runs: finished, pruned, stopped, killed, and resumed."""

import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accel_rl.cli.main import main as accel_rl
from accel_rl.run.run_folder import RunFolder
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.layout import Needs, Placing, lay_out
from accel_rl.sweeps.search_command import FIRST_TRIALS, PERIODS, WARM_UP, Search, SearchOptions, check, open_study
from accel_rl.sweeps.sweep_folder import PRUNED, SweepFolder
from accel_rl.sweeps.sweep_plan import PlannedRun
from tests.integration.runs import progressed, wait_for
from tests.integration.runs import start as start_module
from tests.sweeps import grids, spaces

pytestmark = pytest.mark.needs("optuna")

SPACE = "tests.sweeps.spaces:cartpole"


start = partial(start_module, module="launch.search")


def search(*argv: object) -> int:
    return accel_rl(["search", *map(str, argv)])


def trials(folder: Path) -> list[Any]:
    return list(open_study(folder / "study.log")[1].trials)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_search_goes_on_with_the_run_that_it_had_begun_and_is_in_the_report(number, tmp_path, capsys):
    """The second trial fails because its settings are impossible, and the search continues."""
    folder = tmp_path / "search"
    process = start("tests.sweeps.spaces:sometimes_impossible", "--trials", 1, "--out", folder)
    wait_for(lambda: progressed(folder / "trial=000", 2))
    process.send_signal(number)
    out, _ = process.communicate(timeout=100)
    if number == signal.SIGINT:
        assert process.returncode == 130 and f"--resume {folder}" in out
    wait_for(lambda: SweepFolder(folder).holder() is None, 60, "the end of its runs")
    assert [t.state.name for t in trials(folder)] == ["RUNNING"]
    begun = RunFolder.open(folder / "trial=000")[1].algo.learning_rate

    assert sweep.main(["--resume", str(folder)]) == 2
    assert f"accel-rl search --resume {folder}" in capsys.readouterr().err
    assert search("--resume", folder, "--trials", 3, "--trust") == 0
    out, err = capsys.readouterr()
    assert "3 trials: 2 complete, 1 fail" in out and f"next: accel-rl report {folder}" in out
    assert "trial=001: fail: run trial=001" in err and "2 groups" in err
    first, failed, last = trials(folder)
    assert [t.state.name for t in (first, failed, last)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert first.params["learning_rate"] == begun
    events = (folder / "trial=000" / "events.log").read_text()
    assert events.count("resumed at") == 2 and events.count("resumed at 0 env steps") == 1
    for t in (first, last):
        config = RunFolder.open(folder / f"trial={t.number:03d}")[1]
        assert t.params["learning_rate"] == config.algo.learning_rate
        assert t.value > 5
    best = max((first, last), key=lambda t: t.value)
    assert f"trial={best.number:03d}" in out.splitlines()[1]

    assert accel_rl(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Search: search" in page and f"{best.params['learning_rate']:.4g}" in page
    table = (tmp_path / "report" / "search_search.csv").read_text().splitlines()
    assert table[0] == "trial,state,score,learning_rate" and table[1].startswith(
        f"{best.number},complete,{best.value:.4g}"
    )
    assert table[3].startswith("1,fail,,")


@pytest.fixture
def begun(tmp_path):
    """A search whose trials begin and end only when the test calls it."""
    folder = SweepFolder(tmp_path / "search")
    folder.path.mkdir()
    folder.create({}, {}, {"placing": {}, "slurm": False})
    o = SearchOptions(gpus="none", trials=1)
    with folder.locked() as lock:
        yield Search(folder, spaces.cartpole, o, check(spaces.cartpole, o), lock)


def ran(search: Search, scores: list[float]) -> tuple[str, bool]:
    """Begin a trial, and write one row of metrics per score, at most PERIODS.

    Returns the trial's name, and whether the search has stopped the trial.
    """
    search._ask()
    name, is_bad = list(search._running)[-1], False
    search._lengths[name] = PERIODS * 100
    file = search._folder.run(name) / "metrics.csv"
    for i in range(len(scores)):
        rows = [f"{100 * (j + 1)},{score}" for j, score in enumerate(scores[: i + 1])]
        file.write_text("env_steps,score\n" + "\n".join(rows) + "\n")
        os.utime(file, (i, i))
        is_bad = search._is_bad(name)
        assert not search._is_bad(name), "a period is compared once"
    return name, is_bad


def test_a_run_below_the_median_is_pruned_and_one_above_is_not(begun, capsys):
    for i in range(FIRST_TRIALS):
        name, is_bad = ran(begun, [10.0 + i] * PERIODS)
        assert not is_bad
        begun._end(name, "complete", 10.0 + i)
    for scores, pruned in (
        ([1.0] * WARM_UP, False),
        ([1.0] * (WARM_UP + 1), True),
        ([13.0] * (WARM_UP + 2), False),
        ([], False),
    ):
        name, is_bad = ran(begun, scores)
        assert is_bad == pruned, scores
    begun._end(name, "pruned")
    states = [t.state.name for t in trials(begun._folder.path)]
    assert states == ["COMPLETE"] * FIRST_TRIALS + ["RUNNING"] * 3 + ["PRUNED"]
    assert begun.report()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "9 trials: 5 complete, 3 running, 1 pruned"
    assert [line.split()[0] for line in out[1:]] == ["14", "13", "12", "11", "10"]


@pytest.mark.parametrize(
    ("rows", "state", "score"),
    [
        ("env_steps,score\n100,1\n200,2\n", "COMPLETE", 2.0),
        ("env_steps,score,eval_score\n100,1,\n200,2,7\n", "COMPLETE", 7.0),
        ("env_steps,score\n100,\n", "FAIL", None),
    ],
)
def test_a_trials_score_is_that_of_the_last_evaluation_or_of_training(begun, rows, state, score):
    """A trial without an evaluation and without training scores has failed."""
    begun._ask()
    (name,) = begun._running
    begun._folder.run(name).joinpath("metrics.csv").write_text(rows)
    begun._feeder.waiting.clear()
    begun._folder.note(name, status="done")
    begun._step()
    (trial,) = trials(begun._folder.path)
    assert (trial.state.name, trial.value) == (state, score)


@pytest.mark.slow
def test_a_pruned_run_ends_early_and_is_not_retried(tmp_path):
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    config = replace(grids.cartpole(), env_steps=100_000)
    folder.create({}, {}, {"placing": {}, "slurm": False})
    folder.load_records()
    with folder.locked() as lock:
        feeder = Feeder(folder, lay_out(Placing(gpus="none"), {}), {}, 2, lock)
        layout = lay_out(Placing(gpus="none"), {"a": Needs(0, 1)})
        folder.add("a", PlannedRun(config, Needs(0, 1), layout.sizes["a"]), {})
        feeder.add("a", config.env_steps, layout)
        feeder.step()
        wait_for(lambda: progressed(folder.run("a"), 2))
        feeder.end("a", PRUNED)

        def ended() -> bool:
            feeder.step()
            return feeder.over

        wait_for(ended, 60, "the end of the run")
    assert json.loads((folder.path / "state.json").read_text())["a"]["status"] == PRUNED
    assert not folder.finished("a", config.env_steps)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tests.sweeps.spaces:impossible"], ["run trial=000", "2 groups"]),
        (["tests.sweeps.spaces:nothing"], ["NoneType", "TrainConfig"]),
        (["tests.sweeps.spaces:mistaken"], ["low", "high"]),
        (["tests.sweeps.spaces:cartpol"], ["cartpol", "nearest: cartpole"]),
        ([SPACE, "--trials", "0"], ["--trials 0", "at least 1"]),
        ([SPACE, "--override", "envs"], ["--override envs", "KEY=VALUE"]),
        ([SPACE, "--scale", "2"], ["--scale 2"]),
        ([SPACE, "--gpus", "0-7"], ["--gpus 0-7"]),
        ([], ["the space"]),
        (["--resume", "nowhere"], ["nowhere", "no sweep"]),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accel_rl.sweeps.feeder.Feeder._start", lambda *a: pytest.fail("a process was started"))
    assert search(*argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(w in line for w in words), line
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_refused(capsys):
    assert search("--resume", "") == 2
    err = capsys.readouterr().err
    assert "--resume needs a search's folder, and got ''" in err and err.count("\n") == 1


def test_a_resumed_search_keeps_its_options(tmp_path, capsys):
    folder = tmp_path / "search"
    folder.mkdir()
    options = {"trials": 2, "override": [], "scale": 1.0}
    SweepFolder(folder).create({}, {}, {"experiment": SPACE, "placing": {}, "slurm": False, "search": options})
    assert search("--resume", folder, "--trust", "--scale", 0.5) == 2
    assert "leave out --override and --scale" in capsys.readouterr().err


def test_without_optuna_one_line_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert search(SPACE) == 2
    assert "pip install 'accel_rl[search]'" in capsys.readouterr().err
