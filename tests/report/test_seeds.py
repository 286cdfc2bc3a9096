"""Statistics over seeds count each seed once, and omit evaluations with fewer episodes."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel_rl.cli.main import main
from accel_rl.metrics.plot import columns_of, counted_once, gather
from accel_rl.report.labels import labelled
from accel_rl.report.runs import read_runs
from accel_rl.results.trained_run import TrainedRun, distinct
from accel_rl.run.listed_runs import find_runs
from accel_rl.settings.train import default_config, read_settings
from accel_rl.text.errors import ConfigError
from tests.report.dummies import dummy, write_run

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


@pytest.fixture
def copied(tmp_path):
    """A folder with a run of seed 0 that contains an exported model, a copy of this run, and a run of seed 1."""
    run = dummy(tmp_path / "runs" / "a", seed=0)
    model = run / "model"
    model.mkdir()
    for name in ("config.json", "metrics.csv", "protocol.json"):
        shutil.copy(run / name, model / name)
    (model / "model.json").write_text("{}")
    shutil.copytree(run, tmp_path / "runs" / "copy")
    dummy(tmp_path / "runs" / "b", seed=1, scores=(-20.0, 0.0, 12.0))
    return tmp_path / "runs"


def test_exported_models_are_no_runs(copied):
    assert [p.name for p in find_runs([copied])] == ["a", "b", "copy"]
    with pytest.raises(ConfigError, match="is an exported model"):
        find_runs([copied / "a" / "model"])


def test_seeds_with_other_timeouts_and_intervals_of_files_have_one_label(tmp_path):
    """Timeouts and intervals do not affect learning. Runs of a sweep with --idle, for example, have longer timeouts."""
    config = default_config("pqn")
    patient = replace(
        config,
        sampler=replace(config.sampler, timeout_s=3600.0),
        distributed=replace(config.distributed, timeout_s=3600.0),
        checkpoint=replace(config.checkpoint, interval=123_456),
        log=replace(config.log, interval=10_000),
        seed=2,
    )
    write_run(tmp_path / "a", config, scores=(0.0, 1.0))
    write_run(tmp_path / "b", patient, scores=(0.0, 1.0))
    write_run(tmp_path / "c", replace(config, algo=replace(config.algo, gamma=0.98)), scores=(0.0, 1.0))
    assert [run.setting for run in read_runs([tmp_path])] == ["pqn, gamma=0.99", "pqn, gamma=0.99", "pqn, gamma=0.98"]


def test_a_copy_is_no_second_seed(copied, tmp_path, capsys):
    assert len(distinct(read_runs([copied]))) == 2
    assert main(["report", str(copied), "--out", str(tmp_path / "out"), "--reps", "20"]) == 0
    printed = capsys.readouterr().out
    assert f"seed 0 counts once, from {copied / 'a'}; 1 more run of it: {copied / 'copy'}" in printed
    assert "2 runs" in printed and "counts once" in (tmp_path / "out" / "index.html").read_text()
    (row,) = csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines())
    assert (row["seeds"], row["score"], row["deviation"]) == ("2", "11", "1.41")


def test_a_plot_counts_seeds(rendered, copied, tmp_path, capsys):
    columns = columns_of(find_runs([copied]), "env_steps", "score")
    (curve,) = gather(columns, labelled([read_settings(run) for run in columns]))
    assert len(curve.x) == 2 and curve.legend.endswith("2 seeds") and len(curve.repeated) == 1
    assert main(["plot", str(copied), "--out", str(tmp_path / "curve.png")]) == 0
    assert "seed 0 counts once" in capsys.readouterr().out


def test_the_longest_run_of_a_seed_counts():
    assert counted_once(["x", "y", "x", "x"], [1.0, 9.0, 5.0, 5.0]) == {1: [], 2: [0, 3]}


def evaluated(tmp_path, scores, counts, name="run", **evaluation):
    config = default_config("dqn")
    config = replace(config, env=replace(config.env, game="pong"), env_steps=4_000)
    config = replace(config, evaluation=replace(config.evaluation, **evaluation))
    write_run(tmp_path / name, config, scores=scores, eval_score=scores, eval_episodes=counts)
    (run,) = read_runs([tmp_path / name])
    return run


def test_the_final_score_is_of_the_last_evaluation_of_a_usual_size(tmp_path):
    run = evaluated(tmp_path, (-20.0, 1.0, 3.19, 19.0), (40, 16, 16, 1))
    assert run.score("final") == 3.19 and run.episodes_of("final") == 16
    assert run.score("best") == 3.19 and list(run.short) == [False, False, False, True]
    run = evaluated(tmp_path, (-20.0, -16.2, -20.0), (18, 16, 4), "other")
    assert run.score("final") == -16.2


def test_evaluations_that_are_all_short_count(tmp_path):
    assert evaluated(tmp_path, (1.0, 2.0, 3.0), (4, 3, 2)).score("final") == 3.0
    named = evaluated(tmp_path, (1.0, 2.0, 3.0), (30, 30, 10), "named", episodes=30)
    assert named.score("final") == 2.0
    empty = (np.zeros(1), np.ones(1))
    assert TrainedRun("a", "pong", 0, "a", empty, empty).score("final") == 1.0, "without numbers of episodes"


def test_the_scores_show_the_number_of_episodes(tmp_path):
    evaluated(tmp_path, (-20.0, 1.0, 3.25, 19.0), (40, 16, 16, 1))
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--reps", "20"]) == 0
    (row,) = csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines())
    assert (row["score"], row["episodes"]) == ("3.25", "16")
    assert "1 evaluation of few episodes (1 at least) left out" in (tmp_path / "out" / "index.html").read_text()


def test_the_recorded_runs_final_scores_are_those_of_16_episodes():
    folders = [RESULTS / name for name in ("pong_dqn_single", "pong_gorila")]
    scores = {r.name: (r.score("final"), r.episodes_of("final")) for f in folders for r in read_runs([f])}
    assert scores["pong_dqn_single"] == (3.1875, 16) and scores["pong_gorila"] == (-16.1875, 16)
