"""Our copies of papers' tables agree with other numbers in the papers, which follow from these tables."""

import statistics
import sys

import pytest

from accel_rl import papers
from accel_rl.envs.atari_games import ATARI_49
from accel_rl.metrics.nested import flat
from accel_rl.papers.daley import daley_tables
from accel_rl.papers.daley.daley_tables import daley_hours
from accel_rl.papers.paper import reported_papers
from accel_rl.papers.published import percent, published, published_by, table_of_49
from accel_rl.papers.stooke import stooke_tables
from accel_rl.papers.stooke.stooke_tables import stooke_hours
from accel_rl.report.labels import labels
from accel_rl.report.scores import throughput_table
from accel_rl.results.trained_run import TrainedRun, by_setting, no_column
from accel_rl.settings.train import default_config
from accel_rl.sweeps.grid import find_grid

DALEY = published_by("daley")["table_4"]["games"]


def test_the_49_games_are_there():
    assert set(DALEY) == set(ATARI_49) and all(len(row) == 8 for row in DALEY.values())
    assert published("berzerk") == {} and published("pong")["daley"] == 18.7


@pytest.mark.parametrize("game", ATARI_49)
def test_daley_and_amatos_percentages_follow_from_their_scores(game):
    random, human, dqn, _, score, _, dqn_percent, own_percent = DALEY[game]
    assert 100 * (score - random) / (human - random) == pytest.approx(own_percent, abs=0.051)
    if game != "riverraid":  # The percentage in the paper is a misprint: 55.8 % follows from the score.
        assert 100 * (dqn - random) / (human - random) == pytest.approx(dqn_percent, abs=0.051)


def test_random_and_human_agree_between_the_papers():
    for game, row in DALEY.items():
        for name, printed in zip(("random", "human"), row[:2], strict=True):
            assert abs(published(game)[name] - printed) <= 0.5, (game, name)


def test_dqn_agrees_but_for_three_games():
    differing = {g for g, row in DALEY.items() if abs(published(g)["dqn"] - row[2]) > 0.51}
    assert differing == {"atlantis", "riverraid", "tennis"}


def test_published_hours_are_those_of_the_same_settings():
    assert stooke_hours({"algorithm": "a2c"}) == 3.8 and stooke_hours({"algorithm": "impala"}) is None
    assert stooke_hours({"algorithm": "rainbow", "algo.batch_size": 512}) == 14.1
    assert stooke_hours({"algorithm": "rainbow", "algo.batch_size": 32}) is None
    for member in find_grid("experiments.daley:speed_test").members:
        threads, variant = member.labels["threads"], member.labels["variant"]
        printed = published_by("daley")["table_1"]
        hours = printed["threads"][threads][printed["columns"].index(variant)][0]
        assert daley_hours(dict(flat(member.config.to_dict()))) == hours
    assert daley_hours(dict(flat(default_config("dqn").to_dict()))) is None


def test_the_table_shows_the_papers_numbers():
    table = table_of_49()
    row = dict(zip(table.columns, table.rows[[r[0] for r in table.rows].index("video_pinball")], strict=True))
    assert (row["Daley & Amato"], row["Daley & Amato %"], row["Gorila"]) == ("129182.8", "10847.8", "157550.21")
    assert len(table.rows) == 49 and statistics.median(float(r[8]) for r in table.rows) == 99.7
    assert [len(t.rows) for t in daley_tables.published_tables()] == [4, 4, 4]
    assert [len(t.rows) for t in stooke_tables.published_tables()] == [4, 4, 3]


def test_percent():
    assert percent("pong", 9.3) == pytest.approx(100) and percent("pong", -20.7) == pytest.approx(0)


OWN_PAPER = """
from accel_rl.papers.paper import Paper
from accel_rl.results.section import Section
from accel_rl.results.table import Table

REPORT = __name__
PAPER = Paper(
    "Own et al.", 2016, lambda runs, settings: [Section.of(Table("own", "Own", ["runs"], [[str(len(runs))]]))],
    hours=lambda settings: 7.0, hours_note="one core", run_name=lambda settings: "Own-" + settings["algorithm"],
)
"""


def test_a_new_paper_is_a_folder_and_no_edit_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text(OWN_PAPER)
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    reported_papers.cache_clear()
    try:
        assert [paper.year for paper in reported_papers()] == [2015, 2016, 2018, 2020, 2021]
        (section,) = reported_papers()[1].sections([], {})
        assert section.tables[0].rows == [["0"]]
        assert labels([{"algorithm": "ppo"}]) == ["Own-ppo"]
        run = TrainedRun("a", "pong", 0, "ppo", no_column(), no_column(), env_steps=100.0, wall_s=10.0)
        table = throughput_table(by_setting([run]))
        assert "Own et al." in table.columns and "7" in table.rows[0] and "Own et al.: one core." in table.note
    finally:
        reported_papers.cache_clear()
        sys.modules.pop("accel_rl.papers.own", None)
