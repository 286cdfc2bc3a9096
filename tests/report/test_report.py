"""The report's numbers, its page and refused input, with runs that were written without training."""

import csv
import html.parser
import re
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from accel_rl.cli.main import main
from accel_rl.envs.atari_games import OF_HUMAN
from accel_rl.report.report import ReportOptions, write_report
from accel_rl.report.runs import read_csv, read_runs
from accel_rl.run.listed_runs import find_runs
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.report.dummies import dummy, write_run


def table(out, name):
    with open(out / f"{name}.csv", newline="") as f:
        return list(csv.DictReader(f))


class Page(html.parser.HTMLParser):
    """Parses a report's page into the cells of each table (by the table's id) and the addresses that the page refers
    to."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.sources, self.open = {}, [], []
        self._cell = None
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.sources += [v for k, v in attrs.items() if k in ("src", "srcset", "href")]
        if tag not in ("meta", "link", "img", "source"):
            self.open.append(tag)
        if tag == "table":
            self._rows = self.tables[attrs["id"]] = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._cell = ""
        if tag == "td":  # Phones show the attribute `data-column` before the cell.
            assert attrs["data-column"] == self._rows[0][len(self._rows[-1])]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self._rows[-1].append(self._cell)
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data


@pytest.fixture
def runs(tmp_path):
    """Runs of two games, each with 16 and 32 environments and two seeds."""
    for envs, add in ((16, 0.0), (32, -6.0)):
        for seed in (0, 1):
            dummy(
                tmp_path / "sweep" / f"pong{envs}-{seed}",
                "pong",
                seed,
                evaluations={1: 5.0, 2: 18.0 + add + seed},
                envs=envs,
            )
            dummy(tmp_path / "sweep" / f"breakout{envs}-{seed}", "breakout", seed, scores=(1.7, 31.8, 61.9), envs=envs)
    return tmp_path / "sweep"


def test_scores_are_means_over_seeds_beside_the_papers(runs, tmp_path):
    write_report(read_runs([runs]), tmp_path / "out", ReportOptions())
    rows = {(r["game"], r["setting"]): r for r in table(tmp_path / "out", "scores")}
    assert set(rows) == {(g, f"A2C-{n}env") for g in ("pong", "breakout") for n in (16, 32)}
    pong = rows["pong", "A2C-16env"]
    assert (pong["score"], pong["seeds"], pong["deviation"], pong["played in"]) == ("18.5", "2", "0.71", "evaluation")
    assert pong[OF_HUMAN["wang2016"]] == f"{100 * (18.5 + 20.7) / (14.6 + 20.7):.1f}"
    assert (pong["Human"], pong["Gorila"], pong["Daley & Amato"]) == ("14.6", "18.3", "18.7")
    breakout = rows["breakout", "A2C-16env"]
    assert (
        breakout[OF_HUMAN["wang2016"]] == f"{100 * (61.9 - 1.7) / (30.5 - 1.7):.1f}"
        and breakout["played in"] == "training"
    )
    speed = {(r["setting"], r["game"]): r for r in table(tmp_path / "out", "throughput")}["A2C-16env", "pong"]
    assert (speed["env steps/s"], speed["hours for 50 M"]) == ("500", "27.78")
    assert speed["Stooke & Abbeel"] == "3.8"


def test_a_report_of_some_games(runs, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["report", str(runs), "--out", str(out), "--reps", "50", "--games", "atari26", "qbert"]) == 0
    assert {r["game"] for r in table(out, "scores")} == {"pong", "breakout"}
    assert main(["report", str(runs), "--out", str(out), "--reps", "50", "--games", "pong"]) == 0
    assert {r["game"] for r in table(out, "scores")} == {"pong"}
    capsys.readouterr()
    for name, text in (("atari2", "nearest: atari"), ("Breakout-v5", "nearest: breakout"), ("atari5", "have: ")):
        assert main(["report", str(runs), "--out", str(out), "--games", name]) == 2
        assert text in (error := capsys.readouterr().err) and "--games" in error and error.count("\n") == 1


def test_aggregates_are_those_of_the_definition(runs, tmp_path):
    write_report(read_runs([runs]), tmp_path / "out", ReportOptions(reps=200))
    row = {r["setting"]: r for r in table(tmp_path / "out", "aggregates")}["A2C-16env"]
    pong, breakout = [100 * (s + 20.7) / (14.6 + 20.7) for s in (18.0, 19.0)], 100 * 60.2 / 28.8
    assert float(row["median %"]) == pytest.approx(np.median([np.mean(pong), breakout]), abs=0.06)
    # The interquartile mean of four scores omits the lowest and the highest.
    assert float(row["IQM %"]) == pytest.approx(np.mean(sorted([*pong, breakout, breakout])[1:3]), abs=0.06)
    with open(tmp_path / "out" / "aggregates.csv", newline="") as f:
        cells = next(r for r in csv.reader(f) if r[0] == "A2C-16env")
    median, low, high = map(float, cells[4:7])
    assert low <= median <= high and low < high
    shares = [r for r in table(tmp_path / "out", "profiles") if r["setting"] == "A2C-16env"]
    assert {r["t %"]: r["share above"] for r in shares}["110"] == "0.7500"  # 109.6, 112.5, 209, 209
    nair = ReportOptions(reps=200, human="nair2015")
    write_report(read_runs([runs]), tmp_path / "nair", nair)
    row = {r["setting"]: r for r in table(tmp_path / "nair", "aggregates")}["A2C-16env"]
    assert float(row["mean %"]) == pytest.approx((100 * 39.2 / 30 + 200) / 2, abs=0.06)
    assert OF_HUMAN["nair2015"] in table(tmp_path / "nair", "scores")[0]


def test_a_run_whose_first_episode_has_not_ended_has_a_speed(tmp_path):
    run = dummy(tmp_path / "runs" / "a")
    lines = (run / "metrics.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    (run / "metrics.csv").write_text(
        "\n".join(",".join([c[0], "" if i else c[1], *c[2:]]) for i, c in enumerate(cells))
    )
    write_report(read_runs([tmp_path / "runs"]), tmp_path / "out", ReportOptions(reps=50))
    assert [r["env steps/s"] for r in table(tmp_path / "out", "throughput")] == ["500"]
    assert table(tmp_path / "out", "scores") == []


def test_a_report_without_an_atari_game_has_no_tables_of_papers(tmp_path):
    config = default_config("ppo")
    config = replace(config, env=replace(config.env, id="CartPole-v1"), env_steps=4_000)
    for seed, changes in enumerate(({}, {"callback": ["SaveBest"], "wandb": "offline"})):
        write_run(tmp_path / "runs" / str(seed), replace(config, seed=seed), scores=(20.0, 90.0), settings=changes)
    write_report(read_runs([tmp_path / "runs"]), tmp_path / "out", ReportOptions(reps=20))
    page = (tmp_path / "out" / "index.html").read_text()
    for word in ("49 games", "Stooke", "Daley", "Gorila</th>", "Human</th>", "200 M frames</th>", "50 M</th>"):
        assert word not in re.sub(r"<p.*?</p>", "", page), word
    # The runs differ only in callbacks and Weights & Biases, so that they count as one setting.
    (row,) = table(tmp_path / "out", "scores")
    assert [*row][-2:] == ["score", "deviation"] and row["seeds"] == "2"


def test_best_and_online_scores(runs, tmp_path):
    dummy(tmp_path / "up" / "run", evaluations={0: 19.0, 2: 3.0})
    found = {}
    for which in ("final", "best", "online"):
        write_report(read_runs([tmp_path / "up"]), tmp_path / which, ReportOptions(score=which))
        found[which] = table(tmp_path / which, "scores")[0]["score"]
    assert found == {"final": "3", "best": "19", "online": "10"}


def test_the_page_is_self_contained_and_its_numbers_are_the_csvs(runs, tmp_path, rendered):
    out = tmp_path / "out"
    assert main(["report", str(runs), "--out", str(out), "--reps", "50"]) == 0
    text = (out / "index.html").read_text()
    page = Page(text)
    assert all(s.startswith("data:") for s in page.sources) and text.count("<script>") == 1
    assert {"scores", "aggregates", "throughput", "published_49", "daley_table_1", "stooke_table_3"} <= set(page.tables)
    for name, rows in page.tables.items():
        with open(out / f"{name}.csv", newline="") as f:
            columns = zip(*csv.reader(f), strict=True)
        filled = [column for column in columns if any(column[1:])]
        assert [list(row) for row in zip(*filled, strict=True)] == rows, name
    pictures = re.findall(r'(srcset|src)="data:image/png;base64,[A-Za-z0-9+/=]{1000,}', text)
    # Each plot is on the page twice: for large screens and for phones.
    assert Counter(pictures) == {"src": 5, "srcset": 5}
    assert "prefers-color-scheme: dark" in text


def test_curves_are_means_over_seeds_on_common_steps(tmp_path):
    dummy(tmp_path / "a" / "0", scores=(0.0, 10.0, 20.0))
    dummy(tmp_path / "a" / "1", seed=1, scores=(10.0, 20.0, 30.0))
    write_report(read_runs([tmp_path / "a"]), tmp_path / "out", ReportOptions(reps=50))
    rows = table(tmp_path / "out", "curves")
    assert [(r["env steps"], r["mean"], r["low"], r["high"]) for r in rows] == [
        ("1000", "5", "0", "10"),
        ("2000", "15", "10", "20"),
        ("3000", "25", "20", "30"),
    ]


def test_other_tools_are_read_from_csv(runs, tmp_path):
    file = tmp_path / "sb3.csv"
    file.write_text(
        "game,seed,step,score\n" + "".join(f"pong,{s},{t},{s + t / 100}\n" for s in (0, 1) for t in (0, 900))
    )
    assert main(["report", str(runs), "--csv", str(file), "--out", str(tmp_path / "out"), "--reps", "50"]) == 0
    row = {r["setting"]: r for r in table(tmp_path / "out", "scores") if r["game"] == "pong"}["sb3"]
    assert (row["score"], row["seeds"], row["env steps"]) == ("9.5", "2", "900")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("game,seed,score\npong,0,1\n", ["'step' is missing"]),
        ("game,seed,step,score,scor\npong,0,1,1,1\n", ["unknown column 'scor'", "score"]),
        ("game,seed,step,score\npong,0,x,1\n", ["line 2", "x"]),
        ("game,seed,step,score\npong,0,1\n", ["line 2", "missing"]),
        ("game,seed,step,score\npong,0,1,nan\n", ["line 2", "finite"]),
        ("game,seed,step,score\n", ["no row"]),
    ],
)
def test_bad_csv_is_one_line(tmp_path, text, words):
    file = tmp_path / "x.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as e:
        read_csv(file)
    assert all(w in str(e.value) for w in words) and "\n" not in str(e.value)


def test_what_is_missing_is_said_on_the_page(tmp_path):
    run = dummy(tmp_path / "runs" / "short", evaluations={2: 3.0})
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    (run / "metrics.csv").write_text("".join(lines[:-1]))
    dummy(tmp_path / "runs" / "empty", seed=1, scores=())
    write_report(read_runs([tmp_path / "runs"]), tmp_path / "out", ReportOptions(reps=50))
    text = (tmp_path / "out" / "index.html").read_text()
    assert "short: unfinished, 2,000 of 3,000 env steps" in text and "empty: no score yet" in text


def test_runs_are_found_in_sweeps_and_folders_of_sweeps(tmp_path):
    a, b = dummy(tmp_path / "x" / "sweep" / "run"), dummy(tmp_path / "x" / "run")
    assert find_runs([tmp_path / "x"]) == [b, a] and find_runs([a, a]) == [a]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["folder of runs is missing"]),
        (["nowhere"], ["nowhere", "no run"]),
        (["--csv", "nowhere.csv"], ["nowhere.csv", "No such file"]),
        (["x", "--score", "last"], ["--score", "final"]),
        (["x", "--reps", "0"], ["--reps 0"]),
    ],
)
def test_bad_input_is_one_line(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *argv]) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line and all(w in line for w in words), line
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_hundred_runs_are_reported_within_20_s(tmp_path):
    games = ("pong", "breakout", "qbert", "seaquest", "alien", "amidar", "assault", "asterix", "enduro", "freeway")
    rng = np.random.default_rng(0)
    for i in range(100):
        scores = tuple(np.cumsum(rng.normal(1, 3, 100)))
        dummy(tmp_path / "runs" / str(i), games[i % 10], i // 50, scores=scores, envs=16 * (1 + i % 50 // 10))
    started = time.monotonic()
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    assert time.monotonic() - started < 20
    assert len(table(tmp_path / "out", "scores")) == 50
