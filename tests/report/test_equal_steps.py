"""The report compares runs with published scores of libraries. The runs' files are written without training."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from accel_rl.cli.main import main
from accel_rl.envs.atari_games import human_scale
from accel_rl.metrics.nested import flat
from accel_rl.metrics.sinks import CsvSink
from accel_rl.papers.libraries import library_scores
from accel_rl.papers.libraries.sources import read_sources
from accel_rl.report.equal_steps import ASSUMED_DEVIATION, Comparison, comparisons, verdicts
from accel_rl.results.trained_run import TrainedRun, no_column
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from experiments import suite
from tests.report.test_report import Page

TEN_MILLION = suite.TEN_MILLION


def write(folder, config, env_steps, score, seconds=20_000.0, recorded=True):
    """Write a run of `env_steps` env steps with ten rows of metrics, if `recorded` with CPU time and energy."""
    run = RunFolder.create(folder, config)
    launches.record(run, 0)
    sink = CsvSink(run.path / "metrics.csv")
    for i in range(1, 11):
        share = i / 10 * env_steps / config.env_steps
        row = {"env_steps": i * env_steps // 10, "score": score * share, "eval_score": 1.1 * score * share}
        row |= {"eval_episodes": suite.EPISODES, "wall_s": seconds * share, "steps_per_s": 500.0}
        sink.write(row | ({"cpu_s": 2 * seconds * share, "joules": 5 * seconds * share} if recorded else {}))
    sink.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of PQN, PPO and A2C in several games, two of which are unfinished."""
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


def test_each_game_is_beside_its_published_score(report):
    """The column "% of published" is (our score - score of random play) / (published score - score of random play)."""
    cells = {(r["game"], r["setting"].split(",")[0], r["source"]): r for r in rows(report, "equal_steps")}
    pqn = cells["breakout", "pqn", "CleanRL, pqn_atari_envpool.py"]
    assert (pqn["training score"], pqn["evaluation"], pqn["M env steps"]) == ("389.81", "428.79", "10")
    share = 100 * (389.805 - 1.7) / (float(pqn["published"]) - 1.7)
    assert (pqn["% of published"], pqn["place"]) == (f"{share:.0f}", "inside")
    # EnvPool's rules of Atari differ slightly from the rules of our runs.
    assert pqn["verdict"] == "" and pqn["rules that differ"] == "EnvPool's FIRE, time limit and first stack"
    ppo = cells["breakout", "PPO-16env", "CleanRL, ppo_atari.py"]
    assert (ppo["verdict"], ppo["place"], ppo["kind"]) == ("inferior", "below", "training")
    # In Breakout, the published score is 414.66, and random play scores 1.7. The margin is a quarter of the difference.
    assert float(ppo["margin %"]) == pytest.approx(100 * 0.25 * (414.66 - 1.7) / (30.5 - 1.7), abs=0.1)
    zoo = cells["breakout", "A2C-16env", "RL Zoo, A2C of Stable-Baselines3"]
    assert zoo["kind"] == "evaluation" and zoo["95 % interval"].endswith("deviation assumed")
    assert zoo["place"] == "above" and zoo["evaluation"] == "411.4"
    verdict = {(game, name): row["verdict"] for (game, name, _), row in cells.items()}
    assert verdict["beam_rider", "pqn"] == "4.00 of 10 M env steps"
    assert verdict["qbert", "PPO-16env"] == "0.00 of 10 M env steps"
    beam = cells["beam_rider", "pqn", "CleanRL, pqn_atari_envpool.py"]
    assert (beam["training score"], beam["% of published"], beam["place"]) == ("1200", "", "")


SOURCES = {"ppo": "CleanRL, ppo_atari", "pqn": "CleanRL", "a2c": "RL Zoo", "dqn": "Dopamine, DQN (Adam"}
"""Maps an algorithm to the source whose published scores our runs have. Other algorithms have Dopamine's scores."""


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The report of a suite with one seed. Each algorithm's runs have the published scores of one source."""
    out = tmp_path_factory.mktemp("complete")
    for member in suite.cpu().members:
        config = member.config
        if config.seed > 1 or "preset" in member.labels:
            continue
        scores = list(library_scores(dict(flat(config.to_dict())), config.env_steps))
        scores.sort(key=lambda s: not s.source.startswith(SOURCES.get(config.algorithm, "Dopamine")))
        write(out / "runs" / member.name, config, config.env_steps, scores[0].mean if scores else 10.0)
    assert main(["report", str(out / "runs"), "--out", str(out / "report"), "--reps", "100"]) == 0
    return out / "report"


@pytest.mark.slow
def test_a_complete_suite_has_a_place_in_every_cell_with_a_source(complete):
    """With six algorithms and eight games, 45 of 48 cells have a published score.

    In each cell with a published score, the column `place` is "inside", because our score is the published one.
    """
    places: dict[tuple[str, str], set[str]] = {}
    for row in rows(complete, "equal_steps"):
        places.setdefault((row["setting"], row["game"]), set()).add(row["place"])
    assert len(places) == 45 and all("inside" in p for p in places.values())
    dopamine = [r for r in rows(complete, "equal_steps") if r["source"].startswith("Dopamine")]
    assert {r["M env steps"] for r in dopamine} == {"1"} and not any(r["rules that differ"] for r in dopamine)


def test_a_complete_suite_has_a_pooled_test_of_each_algorithm(complete):
    pooled = rows(complete, "pooled")
    verdicts = {row["setting"].split(",")[0]: row["verdict"] for row in pooled if int(row["games"]) >= 5}
    assert len(verdicts) == 6 and "inferior" not in verdicts.values()
    assert {row["seeds"] for row in pooled} == {"1"}
    (dqn,) = (row for row in pooled if row["source"] == "Dopamine, DQN (Adam + MSE in JAX)")
    assert float(dqn["difference"]) == pytest.approx(0, abs=0.2) and dqn["games"] == "8"


def test_a_complete_suite_has_curves_over_its_games(complete):
    curves = rows(complete, "sample_efficiency")
    assert len({row["setting"] for row in curves}) == 6
    assert {row["games"] for row in curves} == {"8"} and all(row["IQM %"] and not row["low"] for row in curves)


def made_up(scores, game="pong"):
    """Return {setting: {game: runs}} with one run of PPO per score, which ends with this score."""
    settings = dict(flat(suite.run("ppo", game, 1).to_dict()))
    columns = [(np.array([1e5, 1e7]), np.array([x, x])) for x in scores]
    runs = [
        TrainedRun(f"{i}", game, i, "setting", column, no_column(), env_steps=1e7, algorithm="ppo", settings=settings)
        for i, column in enumerate(columns)
    ]
    return {"setting": {game: runs}}


def beside(scores, game, source):
    return [c for c in comparisons(made_up(scores, game), "wang2016") if c.published.source == source]


@pytest.mark.parametrize(
    ("game", "scores", "outcome"),
    [
        ("pong", (20.1, 20.4, 20.6), "equivalent"),
        ("pong", (8.0, 9.0, 8.5), "inferior"),
        ("pong", (20.0, 2.0, 21.0), "undecided"),
        ("breakout", (900.0, 930.0, 910.0), "not inferior"),
        # Double Dunk: published -12.96, random play -18.6. Skiing: published -22,978 +- 9,894, random play -17,098.
        ("double_dunk", (-12.8, -13.0, -12.9), "equivalent"),
        ("double_dunk", (-18.0, -18.3, -17.9), "inferior"),
        ("double_dunk", (-1.2, -1.3, -1.1), "not inferior"),
        ("skiing", (-10_000.0, -9_500.0, -9_900.0), "undecided"),
    ],
)
def test_a_verdict_of_one_game(game, scores, outcome):
    compared = beside(scores, game, "OpenAI Baselines, PPO2, run by CleanRL")
    ((text, chance),) = verdicts(compared).values()
    assert text == outcome and 0 <= chance <= 1


def test_a_margin_is_a_share_of_the_distance_from_random_play():
    """In Pong, random play scores -20.7, and a human 14.6."""
    (c,) = beside((20.1, 20.4), "pong", "CleanRL, ppo_atari.py")
    assert c.margin == pytest.approx(0.25 * (20.36 + 20.7))
    assert c.normalised(c.ours).deviation == pytest.approx(c.ours.deviation / (14.6 + 20.7))
    assert c.normalised(c.ours).mean == pytest.approx((20.25 + 20.7) / (14.6 + 20.7))


def test_the_assumed_deviation_is_the_median_of_published_ones():
    """The median is taken over all games and points of all published curves with several seeds."""
    shares = []
    for source in read_sources():
        for game, points in source.games.items():
            if (scale := human_scale(game)) and (source.seeds or 1) > 1:
                distances, spread = np.abs(points.mean - scale[0]), points.deviation
                shares += [d / x for d, x in zip(spread, distances, strict=True) if d > 0 and x > 0]
    assert len(shares) > 1_000 and np.median(shares) == pytest.approx(ASSUMED_DEVIATION, abs=0.01)


def test_the_page_shows_the_curves_and_both_tables(report):
    page = (report / "index.html").read_text()
    tables = Page(page).tables
    assert len(tables["equal_steps"]) > 8 and len(tables["costs"]) > 5
    assert page.index("Beside published scores") < page.index("Learning curves") and "Crosses: published" in page


def test_a_training_score_is_of_the_episodes_of_the_sources_window(tmp_path):
    """A score of Dopamine is the mean over all episodes that ended within 250,000 env steps."""
    rows = [(100_000, 4, -21.0), (300_000, 6, -18.0), (400_000, 6, ""), (500_000, 9, -12.0), (600_000, 12, 0.0)]
    text = "\n".join(f"{steps},{count},{new},-20.0" for steps, count, new in rows)
    (tmp_path / "metrics.csv").write_text(f"env_steps,episodes,new_score,score\n{text}\n")
    run = TrainedRun("0", "pong", 0, "setting", (np.array([6e5]), np.array([-20.0])), no_column(), path=tmp_path)
    assert run.mean_score(250_000, 505_000) == pytest.approx((2 * -18 + 3 * -12) / 5)
    assert run.mean_score(600_000, 700_000) is None
    settings = dict(flat(suite.run("dqn", "pong", 1).to_dict()))
    (score,) = (s for s in library_scores(settings, 500_000) if s.source == "Dopamine, DQN")
    assert score.window == 250_000
    assert Comparison("pong", "setting", [run], score, "wang2016").training(run) == pytest.approx(-14.4)
    assert Comparison("pong", "setting", [run], replace(score, window=0), "wang2016").training(run) == -20.0
