"""Searches of real runs by Optuna, as a user starts them: finished, pruned, stopped, killed, resumed."""

import csv
import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from accel_rl.cli.main import main as accel_rl
from accel_rl.run.run_folder import RunFolder
from accel_rl.sweeps import search_command as search
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.layout import Needs, Placing, lay_out
from accel_rl.sweeps.study import FIRST_TRIALS, PERIODS, WARM_UP, Study
from accel_rl.sweeps.sweep_folder import PRUNED, SweepFolder
from accel_rl.sweeps.sweep_plan import Run
from tests.integration.runs import progressed, wait_for
from tests.integration.runs import start as start_module
from tests.marks import slow
from tests.sweeps import grids

pytestmark = pytest.mark.needs("optuna")

SPACE = "tests.sweeps.spaces:cartpole"


start = partial(start_module, module="launch.search")


def trials(folder: Path) -> list[dict[str, str]]:
    with open(folder / "trials.csv", newline="") as f:
        return list(csv.DictReader(f))


@pytest.mark.parametrize("number", [signal.SIGINT, slow(signal.SIGKILL)])
def test_a_stopped_search_goes_on_with_the_run_that_it_had_begun_and_is_in_the_report(number, tmp_path, capsys):
    """Impossible settings of the second trial fail the trial, but not the search."""
    folder = tmp_path / "search"
    process = start("tests.sweeps.spaces:sometimes_impossible", "--trials", 1, "--out", folder)
    wait_for(lambda: progressed(folder / "trial=000", 2))
    process.send_signal(number)
    out, _ = process.communicate(timeout=100)
    if number == signal.SIGINT:
        assert process.returncode == 130 and f"--resume {folder}" in out
    wait_for(lambda: SweepFolder(folder).holder() is None, 60, "the end of its runs")
    assert not (folder / "trials.csv").exists()
    begun = RunFolder.open(folder / "trial=000")[1].algo.learning_rate

    assert sweep.main(["--resume", str(folder)]) == 2
    assert f"accel-rl search --resume {folder}" in capsys.readouterr().err
    assert search.main(["--resume", str(folder), "--trials", "3", "--trust"]) == 0
    out, err = capsys.readouterr()
    assert "3 trials: 2 complete, 1 fail" in out and f"next: accel-rl report {folder}" in out
    assert "trial=001 failed: run trial=001" in err and "2 groups" in err
    first, failed, last = trials(folder)
    assert (first["state"], failed["state"], last["state"]) == ("complete", "fail", "complete")
    assert float(first["learning_rate"]) == pytest.approx(begun, rel=1e-3)
    events = (folder / "trial=000" / "events.log").read_text()
    assert events.count("resumed at") == 2 and events.count("resumed at 0 env steps") == 1
    for t in (first, last):
        config = RunFolder.open(folder / f"trial={int(t['trial']):03d}")[1]
        assert float(t["learning_rate"]) == pytest.approx(config.algo.learning_rate, rel=1e-3)
        assert float(t["score"]) > 5
    best = max((first, last), key=lambda t: float(t["score"]))
    assert f"trial={int(best['trial']):03d}" in out.splitlines()[1]

    assert accel_rl(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Search: search" in page and best["learning_rate"] in page
    assert (tmp_path / "report" / "search_search.csv").exists()


def written(folder: Path, name: str, scores: list[float]) -> Path:
    """Write the rows of a run of PERIODS x 100 env steps up to the number of scores."""
    (folder / name).mkdir()
    rows = [f"{100 * (i + 1)},{score}" for i, score in enumerate(scores)]
    (folder / name / "metrics.csv").write_text("env_steps,score\n" + "\n".join(rows) + "\n")
    return folder / name


def test_a_run_below_the_median_is_pruned_and_one_above_is_not(tmp_path):
    study, length = Study(tmp_path), PERIODS * 100
    for i in range(FIRST_TRIALS):
        trial = study.ask()
        path = written(tmp_path, f"good{i}", [10.0 + i] * PERIODS)
        assert not study.prunes(trial, path, length)
        assert study.ended(trial, path, "score") == f"score {10 + i}"
    for name, scores, pruned in (
        ("bad early", [1.0] * WARM_UP, False),
        ("bad", [1.0] * (WARM_UP + 2), True),
        ("better", [13.0] * (WARM_UP + 2), False),
        ("without a score", [], False),
    ):
        trial = study.ask()
        assert study.prunes(trial, written(tmp_path, name, scores), length) == pruned, name
    assert not study.prunes(trial, tmp_path / "good4", length)
    study.end(trial, "pruned")
    assert [t["state"] for t in trials(tmp_path)] == ["complete"] * FIRST_TRIALS + ["pruned"]
    assert len(study.unfinished()) == 3
    assert [t.value for t in study.best(2)] == [14.0, 13.0]


def test_a_run_without_a_score_has_failed(tmp_path):
    study = Study(tmp_path)
    said = study.ended(study.ask(), written(tmp_path, "run", [1.0, 2.0]), "eval_score")
    assert said == "failed: the run has no eval_score" and trials(tmp_path)[0]["state"] == "fail"


def test_a_pruned_run_ends_early_and_is_not_retried(tmp_path):
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    config = replace(grids.cartpole(), env_steps=100_000)
    folder.create({}, {}, {"placing": {}, "slurm": False})
    folder.load_records()
    with folder.locked() as lock:
        feeder = Feeder(folder, lay_out(Placing(gpus="none"), {}), {}, 2, lock)
        assert feeder.has_room
        layout = lay_out(Placing(gpus="none"), {"a": Needs(0, 1)})
        folder.add("a", Run(config, Needs(0, 1), layout.sizes["a"]), {})
        feeder.add("a", config.env_steps, layout)
        assert not feeder.has_room
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
    assert search.main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(w in line for w in words), line
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_refused(capsys):
    assert search.main(["--resume", ""]) == 2
    err = capsys.readouterr().err
    assert "--resume needs a search's folder, and got ''" in err and err.count("\n") == 1


def test_a_resumed_search_keeps_its_options(tmp_path, capsys):
    folder = tmp_path / "search"
    folder.mkdir()
    options = {"trials": 2, "override": [], "scale": 1.0}
    SweepFolder(folder).create({}, {}, {"experiment": SPACE, "placing": {}, "slurm": False, "search": options})
    assert search.main(["--resume", str(folder), "--trust", "--scale", "0.5"]) == 2
    assert "leave out --scale" in capsys.readouterr().err


def test_without_optuna_one_line_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert search.main([SPACE]) == 2
    assert "pip install 'accel_rl[search]'" in capsys.readouterr().err
