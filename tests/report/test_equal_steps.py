"""Runs beside scores that libraries publish: a made-up suite, in files by the writers of a run."""

import csv

import pytest

from accel_rl.cli.main import main
from accel_rl.metrics.sinks import CsvSink
from accel_rl.report.equal_steps import QUANTILES, mean_bounds
from accel_rl.runners import launches
from accel_rl.runners.run_folder import RunFolder
from experiments import suite
from tests.report.test_report import Page

TEN_MILLION = suite.TEN_MILLION


def write(folder, config, env_steps, score, seconds=20_000.0, recorded=True):
    """A run until `env_steps`, with ten rows and evaluations. `recorded`: whether it recorded CPU time and energy."""
    run = RunFolder.create(folder, config)
    launches.record(run, 0)
    sink = CsvSink(run.path / "metrics.csv")
    for i in range(1, 11):
        share = i / 10 * env_steps / TEN_MILLION
        row = {"env_steps": i * env_steps // 10, "score": score * share, "eval_score": 1.1 * score * share}
        row |= {"eval_episodes": suite.EPISODES, "wall_s": seconds * share, "steps_per_s": 500.0}
        sink.write(row | ({"cpu_s": 2 * seconds * share, "joules": 5 * seconds * share} if recorded else {}))
    sink.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """PQN with three seeds in Breakout, one in Pong, and a run that has begun; PPO in Breakout above and below."""
    out = tmp_path_factory.mktemp("suite") / "runs"
    for seed, score in ((1, 380.0), (2, 390.0), (3, 400.0)):
        write(out / f"pqn-breakout-{seed}", suite.run("pqn", "breakout", seed), TEN_MILLION - 5_000, score)
    for seed, score in ((1, 100.0), (2, 110.0), (3, 90.0)):
        write(out / f"ppo-breakout-{seed}", suite.run("ppo", "breakout", seed), TEN_MILLION, score, recorded=False)
    write(out / "pqn-pong-1", suite.run("pqn", "pong", 1), TEN_MILLION, 20.0)
    write(out / "pqn-beam", suite.run("pqn", "beam_rider", 1), 4_000_000, 3_000.0)
    for seed, score in ((1, 300.0), (2, 500.0)):
        write(out / f"pqn-space-{seed}", suite.run("pqn", "space_invaders", seed), TEN_MILLION, 2 * score)
    for seed, score in ((1, 374.0), (2, 374.0)):
        write(out / f"a2c-breakout-{seed}", suite.run("a2c", "breakout", seed), TEN_MILLION, score)
    RunFolder.create(out / "ppo-qbert", suite.run("ppo", "qbert", 1))
    return out


@pytest.fixture(scope="module")
def report(folder):
    out = folder.parent / "report"
    assert main(["report", str(folder), "--out", str(out), "--core-hour-price", "0.05", "--reps", "20"]) == 0
    return out


def rows(report, name):
    with open(report / f"{name}.csv", newline="") as f:
        header, *cells = csv.reader(f)
    return [dict(zip(header, row, strict=True)) for row in cells]


def test_each_game_is_beside_its_published_score_with_a_verdict(report):
    found = {(r["game"], r["setting"].split(",")[0], r["source"]): r for r in rows(report, "equal_steps")}
    pqn = found["breakout", "pqn", "CleanRL, pqn_atari_envpool.py"]
    assert (pqn["training score"], pqn["evaluation"], pqn["published"]) == ("389.81", "428.79", "384.85")
    assert (pqn["ratio"], pqn["verdict"]) == ("1.01", "not inferior")
    for source in ("CleanRL, ppo_atari.py", "CleanRL, PPO with EnvPool in JAX"):
        assert found["breakout", "PPO-16env", source]["verdict"] == "inferior"
    verdicts = {(game, name): row["verdict"] for (game, name, _), row in found.items()}
    assert verdicts["pong", "pqn"] == "one seed"
    assert verdicts["beam_rider", "pqn"] == "4.00 of 10 M env steps"
    assert verdicts["space_invaders", "pqn"] == "undecided"
    assert verdicts["breakout", "A2C-16env"] == "rules not stated"
    assert verdicts["qbert", "PPO-16env"] == "0.00 of 10 M env steps"
    beam = found["beam_rider", "pqn", "CleanRL, pqn_atari_envpool.py"]
    assert (beam["training score"], beam["ratio"]) == ("1200", "")


def test_the_page_shows_the_curves_and_both_tables(report):
    page = (report / "index.html").read_text()
    tables = Page(page).tables
    assert len(tables["equal_steps"]) > 8 and len(tables["costs"]) > 5
    assert page.index("Beside published scores") < page.index("Learning curves") and "Crosses: published" in page


def test_bounds_are_those_of_students_t():
    """The mean of 1, 2, 3 is 2 +- 2.920 / sqrt(3)."""
    assert mean_bounds([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.920 / 3**0.5, 2 + 2.920 / 3**0.5))
    assert list(QUANTILES) == sorted(QUANTILES, reverse=True)
    assert mean_bounds([5.0] * 50) == (5.0, 5.0)
