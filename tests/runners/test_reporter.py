"""The columns of metrics.csv that a reporter computes itself."""

import csv
import math
from dataclasses import replace

import accel_rl
from accel_rl.config.train import default_config


def rows(path):
    with open(path / "metrics.csv", newline="") as f:
        return list(csv.DictReader(f))


def test_new_score_is_the_mean_of_a_rows_own_episodes(tmp_path):
    """Weighted by their numbers, the rows' new scores give the score of all episodes; also over a resume."""
    config = default_config("ppo")
    config = replace(
        config,
        env=replace(config.env, id="CartPole-v1"),
        sampler=replace(config.sampler, engine="in-process", envs=4, horizon=32),
        evaluation=replace(config.evaluation, interval=0),
        log=replace(config.log, interval=128, window=1_000),
        env_steps=512,
    )
    run = accel_rl.train(config, run_dir=tmp_path / "run")
    run.resume(env_steps=1_024)
    table = rows(tmp_path / "run")
    total, before = 0.0, 0
    for row in table:
        new = int(row["episodes"]) - before
        before = int(row["episodes"])
        assert bool(row["new_score"]) == bool(new)
        total += float(row["new_score"]) * new if new else 0.0
    assert len(table) > 4 and before > 20
    assert math.isclose(total / before, float(table[-1]["score"]), rel_tol=1e-5)


def test_cpu_time_counts_all_processes_of_the_run_and_is_unknown_after_one_that_did_not_record_it(tmp_path):
    values = {"env": "CartPole-v1", "envs": 4, "engine": "in-process", "horizon": 32, "evaluation__interval": 0}
    run = accel_rl.train("ppo", **values, log__interval=128, env_steps=256, run_dir=tmp_path / "run")
    times = [float(row["cpu_s"]) for row in rows(run.path)]
    run.resume(env_steps=512)
    later = [float(row["cpu_s"]) for row in rows(run.path)]
    assert later[: len(times)] == times and later == sorted(later) and 0 < later[0] < later[-1]
    with open(run.path / "metrics.csv", newline="") as f:
        table = [{k: v for k, v in row.items() if k != "cpu_s"} for row in csv.DictReader(f)]
    with open(run.path / "metrics.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    run.resume(env_steps=768)
    assert {row["cpu_s"] for row in rows(run.path)} == {""}
