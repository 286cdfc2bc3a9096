"""The report has tables 1 to 4 and figures 3 to 5 of Nair et al. 2015, with the scores of our runs."""

import json
import math
from dataclasses import replace

import pytest

from accel_rl.cli.main import main
from accel_rl.envs.atari_games import ATARI_49, scores
from accel_rl.envs.start_points import NOTE
from accel_rl.papers.gorila import gorila_figures, gorila_scores, gorila_tables
from accel_rl.papers.published import percent_of, published_by
from accel_rl.report.runs import read_runs
from accel_rl.results.trained_run import by_setting
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.report.dummies import write_run, write_sweep
from tests.report.test_stooke import cells


def evaluation(score, starts="saved", env_steps=0, episodes=100, points="abc", **more):
    protocol = {"name": "mnih2015"}
    if starts == "saved":
        protocol |= {"starts": "saved", "starts_sha256": points, "starts_note": NOTE}
    found = {"env_steps": env_steps, "score_mean": score, "episodes": episodes, "protocol": protocol}
    return found | more


def made_up(folder, game, seed=0, final=None, training=(), starts="saved", points="abc"):
    """Write a Gorila run. `final` maps files of final evaluations to scores. `training` has one score per hour of
    training."""
    config = replace(default_config("dqn"), seed=seed, env_steps=1_000 * max(1, len(training)))
    config = replace(config, env=replace(config.env, game=game))
    file = f"{game}.starts.json" if starts == "saved" else ""
    config = replace(config, evaluation=replace(config.evaluation, starts=starts, starts_file=file))
    run = write_run(folder / f"{game}{seed}", config, rate=1_000 / 3600, scores=training or (0.0,))
    (run / "final").mkdir()
    (run / "evaluations").mkdir()
    for name, score in (final or {}).items():
        kind = "saved" if name.endswith("saved") else "noop"
        text = json.dumps(evaluation(score, kind, episodes=100 if kind == "saved" else 30, points=points))
        (run / "final" / f"{name}.json").write_text(text)
    for i, score in enumerate(training):
        steps = 1_000 * (i + 1)
        (run / "evaluations" / f"{steps:012d}.json").write_text(json.dumps(evaluation(score, starts, steps)))
    return run


def settings_of(folder):
    return gorila_tables.settings_with_scores(by_setting(read_runs([folder])))


def by_name(folder):
    return {t.name: t for s in settings_of(folder) for t in s.tables()}


def test_the_published_percentages_follow_from_the_published_scores():
    for i, kind in ((1, "null_op"), (2, "human")):
        printed = published_by("gorila")[f"table_{i}"]
        assert printed["starts"] == kind and list(printed["games"]) == list(ATARI_49)
        for game, (dqn, theirs, of_dqn) in printed["games"].items():
            row = scores(kind)[game]
            wanted = [percent_of(row[c], row["random"], row["human"]) for c in ("dqn", "gorila")]
            if (kind, game) == ("human", "video_pinball"):  # human is below random
                wanted = [-x for x in wanted]
                assert (dqn, theirs) == (-4.65, 1904.86)
            pairs = [
                (dqn, wanted[0]),
                (theirs, wanted[1]),
                (of_dqn, gorila_scores.percent_of_dqn(game, kind, row["gorila"])),
            ]
            for got, value in pairs:
                if got is None:
                    assert (kind, game) == ("human", "pong")
                elif math.isnan(value):
                    assert got == 0.0 and game in ("double_dunk", "montezuma_revenge")
                else:
                    assert abs(abs(got) - abs(value)) <= max(0.06, 0.001 * abs(value)), (kind, game, got, value)


def test_the_papers_own_scores_give_the_papers_counts(tmp_path):
    for game in ATARI_49:
        final = {"noop": scores("null_op")[game]["gorila"], "saved": scores("human")[game]["gorila"]}
        made_up(tmp_path, game, final=final)
    counts = cells(by_name(tmp_path)["gorila_counts"])
    for kind, above in (("null op starts", "31"), ("human starts", "41")):
        row = f"above DQN, {kind}"
        assert counts[row, "of"] == "49" and {counts[row, c] for c in ("Ours", "Gorila", "Gorila, of 49")} == {above}
    assert counts["75 % of human or more, human starts", "Ours"] == "25"
    table = cells(by_name(tmp_path)["gorila_table_2"])
    assert table["zaxxon", "Ours, % of DQN"] == table["zaxxon", "Gorila, % of DQN"] == "1596.74"


def test_raw_scores_are_means_over_runs_beside_the_papers(tmp_path):
    for seed, score in enumerate((10.0, 14.0)):
        made_up(tmp_path, "pong", seed, {"saved": score, "random-saved": -16.0, "noop": 20.0})
    found = by_name(tmp_path)
    human, null_op = cells(found["gorila_table_3"]), cells(found["gorila_table_4"])
    printed = {c: human["pong", c] for c in ("Random", "Human", "DQN", "Gorila")}
    assert printed == {"Random": "-18", "Human": "15.5", "DQN": "16.2", "Gorila": "16.71"}
    assert (human["pong", "Ours"], human["pong", "Random (ours)"], human["pong", "runs"]) == ("12", "-16", "2")
    assert (null_op["pong", "Ours"], null_op["pong", "Random (ours)"], null_op["pong", "Gorila"]) == ("20", "", "18.3")
    assert len(found["gorila_table_3"].rows) == 49 and human["alien", "Ours"] == ""
    assert "not public" in found["gorila_table_3"].note and "not public" not in found["gorila_table_4"].note
    assert "100 episodes each" in found["gorila_table_3"].note and "30 episodes each" in found["gorila_table_4"].note


def test_scores_are_normalized_by_our_random_play_from_the_same_starts(tmp_path):
    made_up(tmp_path, "pong", 0, {"saved": 12.0, "random-saved": -16.0, "noop": 9.0})
    found = by_name(tmp_path)
    human, null_op = cells(found["gorila_table_2"]), cells(found["gorila_table_1"])
    assert human["pong", "Ours %"] == f"{100 * 28 / 31.5:.2f}"
    assert human["pong", "Ours, % of DQN"] == f"{100 * 30 / 34.2:.2f}"
    assert (human["pong", "Gorila %"], human["pong", "DQN %"]) == ("-", "102.08")
    assert null_op["pong", "Ours %"] == "99.00"
    assert "the paper's is used: pong" in found["gorila_table_1"].note
    assert "the paper's is used" not in found["gorila_table_2"].note


def test_without_a_final_evaluation_the_best_one_in_training_stands_in(tmp_path):
    made_up(tmp_path, "pong", training=(1.0, 7.0, 3.0))
    (setting,) = settings_of(tmp_path)
    found = by_name(tmp_path)
    assert cells(found["gorila_table_3"])["pong", "Ours"] == "7" and "gorila_table_4" not in found
    assert "1 runs have no final evaluation" in found["gorila_table_3"].note
    assert set(setting.by_starts) == {"saved"}


def test_runs_with_other_start_points_are_named(tmp_path):
    for seed, points in enumerate(("abc", "def")):
        made_up(tmp_path, "pong", seed, {"saved": 1.0}, points=points)
    assert "Runs with different start points: pong" in by_name(tmp_path)["gorila_table_3"].note


def test_only_runs_of_gorila_are_shown(tmp_path):
    made_up(tmp_path / "a", "pong", training=(1.0,), starts="noop")
    assert not settings_of(tmp_path)
    write_sweep(tmp_path / "b", "experiments.gorila:table_4")
    made_up(tmp_path / "b", "pong", training=(1.0,), starts="noop")
    (setting,) = settings_of(tmp_path / "b")
    assert list(setting.by_starts) == ["noop"]
    run = made_up(tmp_path / "c", "pong", training=(1.0,), starts="noop")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"cluster": "gorila"}))
    assert len(settings_of(tmp_path / "c")) == 1


def test_figure_3_leaves_out_what_the_paper_leaves_out(tmp_path):
    for game in ("pong", "asterix", "video_pinball"):
        made_up(tmp_path, game, final={"saved": 100.0})
    (setting,) = settings_of(tmp_path)
    bars = gorila_figures.figure_3(setting.by_starts["saved"])
    assert set(bars["ours"]) == {"asterix", "pong"}
    assert math.isnan(bars["DQN (paper)"]["asterix"]) and bars["DQN (paper)"]["pong"] == pytest.approx(102.09, abs=0.01)


def test_figure_4_has_both_kinds_of_starts(tmp_path):
    made_up(tmp_path, "asterix", final={"saved": 124.5, "noop": 210.0})
    made_up(tmp_path, "double_dunk", final={"saved": -11.0})
    (setting,) = settings_of(tmp_path)
    bars = gorila_figures.figure_4(setting.by_starts)
    # In the scale for Asterix, 124.5 is 100 %, and the score of random play is 0 %.
    assert bars["ours, our start points"]["asterix"] == pytest.approx(100)
    assert bars["ours, null op starts"] == {"asterix": 0.0}
    assert bars["Gorila (paper), human starts"]["asterix"] == pytest.approx(2670.44, abs=0.01)
    assert math.isnan(bars["ours, our start points"]["double_dunk"])


def test_figure_5_counts_games_over_hours(rendered, tmp_path):
    made_up(tmp_path, "pong", 0, training=(0.0, 16.3, 16.2, 1.0))  # DQN: 16.2
    made_up(tmp_path, "pong", 1, training=(0.0, 0.0, 0.0, 17.0))
    made_up(tmp_path, "breakout", 0, training=(5.0, 1.0, 1.0, 1.0))
    (setting,) = settings_of(tmp_path)
    found = gorila_figures.progress(setting, "saved")
    assert found.passed == {"breakout": math.inf, "pong": 3.0} and found.peak == {"breakout": 1.0, "pong": 3.0}
    assert found.games(2.5) == (0, 1) and found.games(3) == (1, 2)
    assert gorila_figures.progress(setting, "noop") is None
    png, table = gorila_figures.figure_5(found, setting)
    assert png[:4] == b"\x89PNG" and [row[0] for row in table.rows] == ["3", "6", "12", "24", "36"]
    assert table.rows[0] == ["3", "2", "1", "2", "-"] and table.rows[1] == ["6", "2", "1", "2", "19"]


def test_an_evaluation_may_have_its_own_clock(tmp_path):
    run = made_up(tmp_path, "pong")
    file = run / "evaluations" / "000000000500.json"
    file.write_text(json.dumps(evaluation(17.0, env_steps=500, wall_s=7_200)))
    (result,) = gorila_scores.during_training(read_runs([tmp_path])[0], "saved")
    assert (result.hours, result.env_steps) == (2.0, 500)


def test_damaged_files_are_named(tmp_path):
    run = made_up(tmp_path, "pong", final={"saved": 1.0})
    (run / "final" / "noop.json").write_text("{")
    with pytest.raises(ConfigError, match=r"final/noop\.json is no evaluation"):
        settings_of(tmp_path)
    (run / "final" / "noop.json").write_text(json.dumps(evaluation(1.0, "saved")))
    gorila_scores._read.cache_clear()
    with pytest.raises(ConfigError, match="is of saved starts; wanted noop"):
        settings_of(tmp_path)


def test_the_page_has_the_tables_and_figures(tmp_path):
    write_sweep(tmp_path / "sweep", "experiments.gorila:games")
    for seed in (0, 1):
        made_up(tmp_path / "sweep", "pong", seed, {"saved": 12.0, "noop": 3.0, "random-saved": -17.0}, (1.0, 5.0))
        made_up(tmp_path / "sweep", "alien", seed, {"saved": 800.0, "noop": 2_500.0}, (100.0, 700.0))
    assert main(["report", str(tmp_path / "sweep"), "--out", str(tmp_path / "out"), "--reps", "20"]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    names = [f"gorila_table_{i}" for i in (1, 2, 3, 4)] + ["gorila_counts", "gorila_figure_5"]
    for name in names:
        assert (tmp_path / "out" / f"{name}.csv").exists() and f'id="{name}"' in page
    for text in ("figures 3 and 4", "Figure 3: human starts", "Figure 4: relative", "not public"):
        assert text in page
