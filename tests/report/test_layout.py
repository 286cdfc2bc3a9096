"""The report draws the papers' figures in the papers' layout from the runs of a sweep."""

import csv
import re
from dataclasses import replace

import pytest

from accel_rl.cli.main import main
from accel_rl.papers import stooke
from accel_rl.papers.stooke.stooke_tables import claims, stooke_figures
from accel_rl.report import layer_norms, panels
from accel_rl.report.curves import score_bands
from accel_rl.report.runs import read_runs
from accel_rl.results.trained_run import by_setting
from accel_rl.sweeps.grid import find_grid
from tests.marks import slow
from tests.report.dummies import dummy, write_run, write_sweep

SCORES = (-20.0, -10.0, 0.0, 5.0)


def swept(folder, figure, *experiments, **chosen):
    """Write the sweep folder of a figure, with the runs of the experiments whose labels are in `chosen`."""
    write_sweep(folder, f"experiments.stooke:{figure}")
    for experiment in experiments:
        for member in find_grid(f"experiments.stooke:{experiment}").members:
            if all(member.labels.get(k, v[0]) in v for k, v in chosen.items()):
                config = replace(member.config, env_steps=4_000)
                write_run(folder / f"{experiment}-{member.name}", config, scores=SCORES, eval_score=SCORES)
    return folder


def report(runs, out):
    assert main(["report", str(runs), "--out", str(out), "--reps", "20"]) == 0
    return (out / "index.html").read_text()


def rows_of(out, name):
    with open(out / f"{name}.csv", newline="") as f:
        return list(csv.DictReader(f))


def headings(text):
    return re.findall(r"<h2>(.*?)</h2>", text)


@pytest.mark.slow
def test_figure_3_has_a_row_for_each_family_and_a_column_for_each_game(tmp_path, rendered):
    experiments = ("a2c_scaling", "a3c", "ppo_scaling", "appo")
    few = {"game": ("pong", "breakout"), "seed": ("0",), "envs": ("16", "32"), "ranks": ("8", "16")}
    runs = swept(tmp_path / "S", "figure_3", *experiments, **few)
    rows = panels.grouped(by_setting(read_runs([runs])))
    assert list(rows) == ["A2C", "A3C", "PPO", "APPO"]
    assert list(rows["A2C"]) == ["A2C-16env", "A2C-32env"] and list(rows["A3C"]) == ["A3C-16env-8", "A3C-16env-16"]
    assert list(rows["APPO"]) == [f"APPO-8env-8, local_updates={n}" for n in (1, 2, 3, 4)]
    text = report(runs, tmp_path / "R")
    assert headings(text)[0].startswith("Stooke &amp; Abbeel 2018, figure 3")
    assert "from 7e-4 to 3e-3" in text  # what the paper claims
    assert {r["setting"] for r in rows_of(tmp_path / "R", "curves")} == {s for row in rows.values() for s in row}


def test_figure_4_has_dqn_above_categorical_dqn(tmp_path):
    few = {"game": ("pong",), "seed": ("0",), "batch_size": ("32", "512")}
    runs = read_runs([swept(tmp_path / "S", "figure_4", "c51_scaling", "dqn_scaling", **few)])
    rows = panels.grouped(by_setting(runs))
    assert {f: list(s) for f, s in rows.items()} == {
        "DQN": ["DQN-32", "DQN-512"],
        "Categorical-DQN": ["Categorical-DQN-32", "Categorical-DQN-512"],
    }


@pytest.mark.parametrize("figure", ["figure_5", slow("figure_10"), "figure_12"])
def test_other_figures_have_a_panel_for_each_game(tmp_path, figure):
    runs = swept(tmp_path / "S", figure, figure, game=("pong", "breakout"), seed=("0",))
    assert list(panels.grouped(by_setting(read_runs([runs])))) == [""]
    text = report(runs, tmp_path / "R")
    number = figure.removeprefix("figure_")
    assert all(f"figure {number}" in h for h in headings(text)[:2])
    assert all(line.replace("&", "&amp;").replace("'", "&#x27;") in text for line in claims([number]))


def test_curves_are_shown_against_minutes_too(tmp_path):
    runs = swept(tmp_path / "S", "figure_5", "figure_5", game=("pong",), algorithm=("ppo-64env",))
    text = report(runs, tmp_path / "R")
    assert headings(text)[1].endswith(", by minutes")
    for name in ("curves", "curves_by_time"):
        found = rows_of(tmp_path / "R", name)
        assert [(float(r["env steps"]), float(r["minutes"])) for r in found] == [
            (n, pytest.approx(n / 500 / 60, abs=1e-3)) for n in (1_000, 2_000, 3_000, 4_000)
        ]
        assert {r["score of"] for r in found} == {"training"} and {r["seeds"] for r in found} == {"2"}


def test_policy_gradients_show_training_scores_and_q_learning_evaluations(tmp_path):
    swept(tmp_path, "figure_12", "figure_12", game=("pong",), seed=("0",))
    swept(tmp_path, "figure_10", "figure_10", game=("breakout",), seed=("0",))
    bands = score_bands(by_setting(read_runs([tmp_path])), "auto")
    assert {game: {b.what for b in found.values()} for game, found in bands.items()} == {
        "breakout": {"training"},
        "pong": {"evaluation"},
    }


def test_secondary_learners_are_beside_their_sampler_learners(tmp_path):
    for seed in (0, 1):
        config = replace(stooke.secondary_learner("breakout", 2_048, 64, seed), env_steps=4_000)
        columns = {"eval_score": SCORES, "secondary/eval_score": [s + 2 * seed for s in SCORES]}
        columns |= {"param_norm": (1, 2, 3, 4), "secondary/param_norm": (2, 4, 6, 8)}
        write_run(tmp_path / "S" / str(seed), config, scores=SCORES, **columns)
    write_sweep(tmp_path / "S", "experiments.stooke:figure_6")
    runs = read_runs([tmp_path / "S"])
    score, norm = layer_norms.secondary_panels(runs).values()
    assert [p.title for p in score] == ["breakout: sampler 2048, secondary 64"]
    assert score[0].lines["secondary learner"].mean.tolist() == [s + 1 for s in SCORES]
    assert norm[0].lines["secondary learner"].mean.tolist() == [2, 4, 6, 8]
    assert norm[0].lines["sampler-learner"].seeds == 2
    text = report(tmp_path / "S", tmp_path / "R")
    assert headings(text)[0].startswith("Stooke &amp; Abbeel 2018, figure 6") and "kept pace" in text
    found = rows_of(tmp_path / "R", "secondary")
    assert {(r["quantity"], r["learner"]) for r in found} == {
        (q, learner) for q in layer_norms.QUANTITIES for learner in layer_norms.SHORT.values()
    }


def test_norms_are_means_over_seeds(tmp_path):
    for optimizer in ("adam", "rmsprop"):
        for seed in (0, 1):
            config = replace(stooke.optimizers("qbert", optimizer, 64, 4.2e-4, seed), env_steps=4_000)
            columns = {name: [1.0 + seed, 2, 3, 4] for name in layer_norms.titles().values()}
            write_run(tmp_path / f"{optimizer}{seed}", config, scores=SCORES, **columns)
    found = layer_norms.panels(read_runs([tmp_path]))
    assert [p.title for p in found] == [f"qbert, {title}" for title in layer_norms.titles()]
    assert list(found[1].lines) == ["Adam, 64, 0.00042", "RMSProp, 64, 0.00042"]
    line = found[1].lines["Adam, 64, 0.00042"]
    assert (line.seeds, line.mean[0], line.low[0], line.high[0]) == (2, 1.5, 1, 2)
    report(tmp_path, tmp_path / "R")
    assert {r["panel"] for r in rows_of(tmp_path / "R", "norms")} == {p.title for p in found}


def test_a_table_that_was_swept_comes_first(tmp_path):
    write_sweep(tmp_path / "S", "experiments.stooke:table_2")
    member = find_grid("experiments.stooke:table_2").only({"gpus": ["8"], "algorithm": ["appo"]}).members[0]
    write_run(tmp_path / "S" / "a", replace(member.config, env_steps=4_000), scores=SCORES)
    assert headings(report(tmp_path / "S", tmp_path / "R"))[0] == "Stooke &amp; Abbeel 2018, table 2"


@pytest.mark.parametrize("experiment", ["figure_3", "figure_5", "figure_6", "figure_9", "table_1"])
def test_runs_without_anything_to_show_are_reported(tmp_path, experiment):
    """A run without rows of metrics, or without any score in the rows, appears in no figure."""
    make = {"figure_6": stooke.secondary_learner, "figure_9": stooke.optimizers}.get(experiment, stooke.a2c_scaling)
    write_sweep(tmp_path / "S", f"experiments.stooke:{experiment}")
    (write_run(tmp_path / "S" / "a", make()) / "metrics.csv").unlink()
    sampling = {"algorithm": "experiments.sampling:SamplingOnly"} if experiment == "table_1" else None
    write_run(tmp_path / "S" / "b", make(seed=1), settings=sampling, scores=[""] * 3)
    text = report(tmp_path / "S", tmp_path / "R")
    assert "no score yet" in text and "unfinished" in text and "data:image/png" not in text
    assert rows_of(tmp_path / "R", "curves") == []


def test_a_seed_that_has_ended_leaves_the_curve(tmp_path):
    dummy(tmp_path / "S" / "c", scores=(1.0, 2.0), envs=32)
    a, b = (dummy(tmp_path / "S" / str(seed), seed=seed) for seed in (0, 1))
    for run, keep in ((a, (0, 1)), (b, (0, 3))):
        lines = (run / "metrics.csv").read_text().splitlines()
        (run / "metrics.csv").write_text("\n".join(lines[i] for i in keep) + "\n")
    assert "no curve" not in report(tmp_path / "S", tmp_path / "R")
    steps = [r["env steps"] for r in rows_of(tmp_path / "R", "curves") if r["setting"] == "A2C-16env"]
    assert (steps[0], steps[-1]) == ("1000", "3000")


def test_many_notes_of_one_kind_are_cut(tmp_path):
    for i in range(14):
        dummy(tmp_path / "S" / str(i), seed=i, scores=())
    assert report(tmp_path / "S", tmp_path / "R").count("and 4 more like this") == 2


def test_figures_of_other_experiments_are_not_the_papers():
    assert stooke_figures("experiments.stooke:figure_3") == ["3"] and stooke_figures("mine:figure_3") == []
    assert stooke_figures("experiments.stooke:secondary_learner") == ["6", "7", "8"]
