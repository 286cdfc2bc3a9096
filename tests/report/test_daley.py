"""The report has tables 1 to 4 of Daley & Amato, with the numbers of our runs."""

import statistics

import pytest

from accel_rl.metrics.nested import flat
from accel_rl.papers import daley
from accel_rl.papers.daley.daley_tables import best, daley_hours, speed_tables, suite_tables
from accel_rl.papers.published import published_by
from accel_rl.report.runs import read_runs
from accel_rl.results.trained_run import by_setting
from tests.report.dummies import dummy, write_run
from tests.report.test_stooke import cells

PONG = (-20.0, -5.0, 5.0, 0.0)  # Scores in Pong, the best of which, 5, is 85.7 % human-normalized.


def test_each_of_the_14_variants_has_a_name_of_its_own(tmp_path):
    runs = hours_runs(tmp_path, [(threads, variant, (500,)) for threads, variant in daley.FOURTEEN])
    assert {r.setting for r in runs} == {f"DQN-{threads}threads-{variant}" for threads, variant in daley.FOURTEEN}


def hours_runs(folder, variants):
    for threads, variant, rates in variants:
        for seed, rate in enumerate(rates):
            write_run(
                folder / f"{threads}{variant}{seed}", daley.speed_test(threads, variant, seed), rate, scores=(1.0,)
            )
    return read_runs([folder])


def test_tables_1_to_3_are_hours_percent_and_speed_up(tmp_path):
    runs = hours_runs(tmp_path, [(1, "standard", (400, 500)), (8, "both", (1_000, 1_000))])
    one, two, three = speed_tables(runs)
    hours = [50e6 / rate / 3600 for rate in (400, 500)]
    base, fast = statistics.mean(hours), 50e6 / 1_000 / 3600
    assert cells(one)["1", "standard"] == f"{base:.2f} +- {statistics.stdev(hours):.2f}"
    assert cells(one)["8", "both"] == f"{fast:.2f} +- 0.00" and cells(one)["8", "both (paper)"] == "9.02 +- 0.16"
    assert cells(one)["1", "both"] == "" and cells(one)["1", "both (paper)"] == "-"
    assert cells(two)["8", "both"] == f"{100 * fast / base:.1f}" and cells(two)["8", "both (paper)"] == "36.0"
    assert cells(two)["1", "standard"] == "100.0"
    assert cells(three)["8", "both"] == f"{base / fast:.2f}" and cells(three)["8", "both (paper)"] == "2.78"
    assert "2 each" in one.note and "pong" in one.note
    assert list(by_setting(runs)) == ["DQN-1threads-standard", "DQN-8threads-both"]


def test_the_random_steps_that_fill_the_replay_take_no_time(tmp_path):
    """The paper measures training time from t = 1, when random steps have filled the replay.

    In the tested run, random steps are four times as fast as training steps.
    """
    config = daley.table_1(1, "standard")
    slow, past = 250.0, config.env_steps - 50_000
    wall = [50_000 / 1_000, 50_000 / 1_000 + past / 2 / slow, 50_000 / 1_000 + past / slow]
    run = write_run(tmp_path / "run", config, scores=())
    rows = [(50_000, wall[0]), (50_000 + past // 2, wall[1]), (config.env_steps, wall[2])]
    (run / "metrics.csv").write_text("env_steps,score,wall_s\n" + "".join(f"{s},1.0,{w}\n" for s, w in rows))
    one, *_ = speed_tables(read_runs([tmp_path]))
    assert cells(one)["1", "standard"] == f"{50e6 / slow / 3600:.2f}"


def test_without_the_standard_variant_there_is_table_1_alone(tmp_path):
    (one,) = speed_tables(hours_runs(tmp_path, [(8, "both", (1_000,))]))
    assert cells(one)["8", "both"] == "13.89" and "was not run" in one.note


def test_evaluated_runs_count_only_where_there_are_no_others(tmp_path):
    suite_run(tmp_path, "alien", (1.0,))
    (one,) = speed_tables(read_runs([tmp_path]))
    assert cells(one)["8", "both"] == "27.78" and "time of their evaluations" in one.note
    (one,) = speed_tables(hours_runs(tmp_path, [(8, "both", (1_000,))]))
    assert cells(one)["8", "both"] == "13.89" and "time of their evaluations" not in one.note


def test_other_runs_have_no_cell():
    settings = dict(flat(daley.speed_test(8, "both").to_dict()))
    assert daley_hours(settings) == 9.02
    for other in (
        {"distributed.ranks": 2},
        {"distributed.update": "async"},
        {"env.id": "CartPole-v1"},
        {"secondary.batch": 64},
    ):
        assert daley_hours(settings | other) is None


def suite_run(folder, game, scores, deviations=None, seed=0):
    deviations = deviations or [float(i) for i in range(len(scores))]
    return write_run(
        *(folder / f"{game}{seed}", daley.suite(game, seed)),
        scores=scores,
        eval_score=scores,
        eval_score_std=deviations,
        eval_episodes=[30] * len(scores),
    )


def test_table_4_has_the_best_evaluation_with_its_deviation(tmp_path):
    suite_run(tmp_path, "pong", PONG)
    suite_run(tmp_path, "breakout", (1.0, 500.0), (0.5, 25.25))
    suite_run(tmp_path, "private_eye", (24.9, 100.0))
    dummy(tmp_path / "other", "alien", evaluations={1: 3.0})
    ((table, counts),) = suite_tables(by_setting(read_runs([tmp_path])))
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"pong", "breakout", "private_eye"}
    assert rows["pong"]["Ours"] == "5.0 (2.0)" and rows["pong"]["Ours %"] == f"{100 * 25.7 / 30:.1f}"
    assert rows["breakout"]["Ours"] == "500.0 (25.2)"
    printed = ("Random", "Human", "DQN", "Daley & Amato", "DQN %", "Daley & Amato %")
    assert [rows["pong"][c] for c in printed] == ["-20.7", "9.3", "18.9 (1.3)", "18.7 (1.4)", "132.0", "131.3"]
    level, above = (dict(zip(counts.columns, row, strict=True)) for row in counts.rows)
    assert (level["of"], level["Ours"], level["Daley & Amato"], level["DQN"]) == ("3", "2", "2", "2")
    assert (level["Daley & Amato, of 49"], level["DQN, of 49"]) == ("33", "29")
    assert (above["Ours"], above["Daley & Amato"]) == ("1", "0")  # 500 in breakout
    assert above["Daley & Amato, of 49"] == "28 (its table: 29)"
    assert "30 here, 30 in the paper" in table.note


def test_over_several_seeds_the_deviation_is_of_all_their_episodes(tmp_path):
    for seed, (score, deviation) in enumerate(((10.0, 3.0), (14.0, 5.0))):
        suite_run(tmp_path, "pong", (score,), (deviation,), seed)
    mean, deviation, episodes = best(read_runs([tmp_path]))
    assert (mean, episodes) == (12.0, 60) and deviation == pytest.approx(((9 + 25) / 2 + 4) ** 0.5)


def test_the_papers_own_scores_give_the_papers_own_counts(tmp_path):
    for game, row in published_by("daley")["table_4"]["games"].items():
        suite_run(tmp_path, game, (row[4],), (row[5],))
    ((table, counts),) = suite_tables(by_setting(read_runs([tmp_path])))
    assert [row[2] for row in counts.rows] == ["33", "29"]
    for row in table.rows:
        assert row[4] == row[5] and abs(float(row[7]) - float(row[8])) <= 0.1001, row
