"""Reports print a paper's number next to a run, and list the settings in which the run differs from the paper."""

from dataclasses import replace

import pytest

from accel_rl.metrics.nested import flat
from accel_rl.papers import daley, dalton, gorila
from accel_rl.papers.daley.daley_tables import (
    daley_differences,
    daley_hours,
    daley_name,
    daley_score_differences,
    speed_tables,
    suite_tables,
)
from accel_rl.papers.dalton.dalton_tables import cule_differences
from accel_rl.papers.gorila.gorila_scores import gorila_differences
from accel_rl.papers.published import published_by, rule_differences
from accel_rl.papers.stooke.stooke_tables import stooke_differences, stooke_hours, tables
from accel_rl.report.runs import read_runs
from accel_rl.report.scores import throughput_table
from accel_rl.results.run_settings import complete, differences
from accel_rl.results.trained_run import by_setting
from accel_rl.settings.presets import on_gorila
from accel_rl.settings.train import default_config
from accel_rl.sweeps.grid import find_grid
from tests.report.dummies import write_run
from tests.report.test_stooke import cells


def of(config):
    return dict(flat(replace(config, algo=config.algo.for_env(is_atari=True)).to_dict()))


def settings(algorithm, **changed):
    """Return an algorithm's default settings by full name, with changes whose names have `__` in place of a dot."""
    config = default_config(algorithm)
    if changed.pop("on_cluster", False):
        config = on_gorila(config)
    return of(config) | {name.replace("__", "."): value for name, value in changed.items()}


@pytest.mark.parametrize("table", ["2", "3"])
def test_the_experiments_of_stooke_have_the_papers_settings(table):
    for member in find_grid(f"experiments.stooke:table_{table}").members:
        assert stooke_differences(of(member.config)) == [], member.name


def test_the_experiments_of_the_other_papers_have_the_papers_settings():
    for member in find_grid("experiments.daley:table_1").members:
        assert daley_differences(of(member.config)) == [], member.name
    assert daley_score_differences(of(daley.suite("alien"))) == []
    for column in dalton.COLUMNS:
        assert cule_differences(of(dalton.table_3(column=column))) == []
    for kind in ("null_op", "human"):
        assert gorila_differences(of(gorila.gorila()), kind) == []


def test_every_published_setting_is_a_setting():
    known = {name for algorithm in ("ppo", "impala", "rainbow") for name in complete(settings(algorithm))}
    for name in ("stooke", "daley", "dalton", "gorila"):
        paper = published_by(name)["settings"]
        assert {name for group in paper.values() for name in group} <= known


STOOKE = [  # Cases: (settings of a run, hours in the paper, differences from the paper's settings).
    (settings("dqn", algo__batch_size=512, algo__intensity=1.0), 8.3, ["intensity=1 (paper: 8)"]),
    (
        settings("dqn", on_cluster=True, algo__batch_size=512, gorila__bundles=8, algo__network="dqn"),
        8.3,
        ["learners=8 (paper: 1)", "cluster=gorila (paper: none)"],
    ),
    (
        settings("a2c", on_cluster=True, gorila__bundles=8),
        3.8,
        ["learners=8 (paper: 1)", "cluster=gorila (paper: none)"],
    ),
    (
        settings("a2c", sampler__horizon=64, algo__lstm=256, env__frame="84x84"),
        3.8,
        ["frame=84x84 (paper: 104x80)", "horizon=64 (paper: 5)", "lstm=256 (paper: 0)"],
    ),
    (settings("a2c", sampler__engine="device"), 3.8, ["engine=device (paper: workers)"]),
    (
        settings("ppo", sampler__envs=8, sampler__horizon=32, algo__epochs=1, algo__minibatch=512),
        4.4,
        ["rollout=256 (paper: 2,048)", "epochs=1 (paper: 4)"],
    ),
    (settings("a2c", precision="bfloat16"), 3.8, ["precision=bfloat16 (paper: float32)"]),
    (
        settings("a2c", env__protocol="machado2018"),
        3.8,
        ["frame=84x84 (paper: 104x80)", "repeat_action_probability=0.25 (paper: 0)", "noop_max=0 (paper: 30)"],
    ),
    (
        settings("rainbow", algo__batch_size=512, algo__n_step=1, algo__dueling=False),
        14.1,
        ["n_step=1 (paper: 3)", "dueling=no (paper: yes)"],
    ),
]


@pytest.mark.parametrize(("run", "hours", "texts"), STOOKE)
def test_a_run_beside_a_cell_of_stooke_is_told_apart(run, hours, texts):
    found = stooke_differences(run)
    assert stooke_hours(run) == hours and set(texts) <= set(found)


def daleys(**changed):
    more = {"sampler__envs": 8, "sampler__groups": 1, "algo__batch_size": 32} | changed
    return settings("dqn", **more)


DALEY = [
    (
        daleys(algo__intensity=1.0),
        ["frame=104x80 (paper: 84x84)", "network=dqn (paper: nature)", "intensity=1 (paper: 8)"],
    ),
    (
        daleys(algo__n_step=3, algo__double=True, **{"algo__replay.prioritized": True}),
        ["n_step=3 (paper: 1)", "double=yes (paper: no)", "prioritized=yes (paper: no)"],
    ),
    (daleys(sampler__engine="device"), ["engine=device (paper: workers)"]),
    (daleys(cluster="gorila", gorila__bundles=4), ["learners=4 (paper: 1)", "cluster=gorila (paper: none)"]),
    (
        daleys(env__protocol="mnih2015", algo__network="a3c", algo__hidden=(32,), algo__intensity=0.5),
        ["network=a3c (paper: nature)", "hidden=32 (paper: none)", "intensity=0.5 (paper: 8)"],
    ),
    (daleys(sampler__workers=2), ["workers=2 (paper: 8)"]),
]


@pytest.mark.parametrize(("run", "texts"), DALEY)
def test_a_run_beside_a_cell_of_daley_is_told_apart_and_not_named(run, texts):
    assert daley_hours(run) == 14.60 and set(texts) <= set(daley_differences(run)) and daley_name(run) == ""


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "max_evaluation_steps=27,000 (paper: 4,500)"),
        ({}, "frame=104x80 (paper: 84x84)"),
        ({"env__protocol": "machado2018"}, "repeat_action_probability=0.25 (paper: 0)"),
        ({"env__protocol": "machado2018"}, "full_action_set=yes (paper: no)"),
        (
            {"env__protocol": "mnih2015", "env__repeat_action_probability": 0.25},
            "repeat_action_probability=0.25 (paper: 0)",
        ),
        ({"cluster": "none"}, "cluster=none (paper: gorila)"),
        ({"gorila__bundles": 2}, "bundles=2 (paper: 100)"),
    ],
)
def test_a_run_in_the_tables_of_nair_is_told_apart(changed, text):
    run = settings("dqn", on_cluster=True, env__game="enduro", **changed)
    assert text in gorila_differences(run, "null_op")


def test_a_run_in_the_table_of_cule_is_told_apart():
    config = dalton.table_3(column="cpu-120-20")
    config = replace(config, sampler=replace(config.sampler, horizon=5), env=replace(config.env, frame=None))
    assert cule_differences(of(config)) == ["frame=104x80 (paper: 84x84)", "horizon=5 (paper: 1)"]


def test_runs_with_the_papers_settings_count_and_others_only_where_there_are_none(tmp_path):
    member = find_grid("experiments.stooke:table_3").only({"algorithm": ["dqn-512"], "gpus": ["1"]}).members[0]
    light = replace(member.config, algo=replace(member.config.algo, intensity=1.0))
    write_run(tmp_path / "light", light, 8_000, scores=(1.0,))
    (table,) = tables(read_runs([tmp_path]))
    assert cells(table)["DQN-512", "1 rank"] == "1.74*" and cells(table)["DQN-512", "1 rank (paper)"] == "8.3"
    assert "* differs from the paper: DQN-512: intensity=1 (paper: 8)." in table.note
    write_run(tmp_path / "same", member.config, 1_000, scores=(1.0,))
    (table,) = tables(read_runs([tmp_path]))
    assert cells(table)["DQN-512", "1 rank"] == "13.89" and "differs" not in table.note
    throughput = throughput_table(by_setting(read_runs([tmp_path])))
    text = {row[0]: row[-1] for row in throughput.rows}
    assert sorted(text.values()) == ["", "Stooke & Abbeel: intensity=1 (paper: 8)"]


def test_daleys_tables_name_what_differs(tmp_path):
    config = daley.speed_test(8, "both")
    other = replace(config, algo=replace(config.algo, network="a3c"))
    write_run(tmp_path / "other", other, 1_000, scores=(1.0,))
    (one,) = speed_tables(read_runs([tmp_path]))
    assert cells(one)["8", "both"] == "13.89*" and "network=a3c (paper: nature)" in one.note
    suite = daley.suite("pong")
    suite = replace(suite, algo=replace(suite.algo, learning_rate=1e-3))
    write_run(tmp_path / "suite", suite, 1_000, scores=(1.0,), eval_score=(1.0,))
    ((table, _),) = suite_tables(by_setting(read_runs([tmp_path / "suite"])))
    assert "Differs from the paper: " in table.note and "learning_rate=0.001 (paper: 0.00025)" in table.note


def test_an_algorithm_of_ones_own_is_not_imported():
    found = differences({"algorithm": "nowhere:Mine", "algo.lstm": 3}, {"algo.lstm": 0, "precision": "float32"})
    assert found == ["lstm=3 (paper: 0)", "precision=none (paper: float32)"]


@pytest.mark.parametrize(
    ("protocol", "texts"),
    [
        ("mnih2015", []),
        ("stooke2018", ["max_evaluation_steps=27,000 (paper: 4,500)"]),
        (
            "machado2018",
            ["repeat_action_probability=0.25 (paper: 0)", "noop_max=0 (paper: 30)", "full_action_set=yes (paper: no)"],
        ),
    ],
)
def test_published_scores_are_by_rules(protocol, texts):
    found = rule_differences(settings("dqn", env__game="enduro", env__protocol=protocol))
    assert set(texts) <= set(found) and (texts or not found)
    assert rule_differences(settings("dqn", env__id="CartPole-v1")) == []
