"""`python -m benchmarks.trend`: a row of speed ratios per commit, a report of ratios that fell, and the plot."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import trend
from benchmarks.harness.trend_probe import ratios


def row(commit: str, time: int, machine: str = "here", **values: float) -> dict[str, Any]:
    return {"commit": commit, "time": time, "title": f"title of {commit}", "machine": machine, "ratios": values}


def test_a_ratio_fell_if_it_is_5_percent_below_the_median_of_earlier_commits():
    rows = [
        row("a", 1, x=1.0, y=2.0),
        row("b", 2, x=1.2, y=2.0),
        row("c", 3, x=1.1, y=1.91),
        row("d", 4, x=1.04, y=1.89),
    ]
    assert [text for _, text in trend.falls(rows)] == [
        "d (title of d): x fell from 1.10 to 1.04", "d (title of d): y fell from 2.00 to 1.89",
    ]  # fmt: skip
    assert not trend.falls([row("a", 1, x=1.0), row("b", 2, "there", x=0.5), row("c", 3, z=0.1)])


def test_a_commit_has_one_row_on_each_machine_in_order_of_time():
    rows = [row("b", 2, x=1.0), row("b", 2, "there", x=3.0)]
    found = trend.stored(rows, [row("b", 2, x=2.0), row("a", 1, x=1.0)])
    assert [(r["machine"], r["commit"], r["ratios"]["x"]) for r in found] == [
        ("here", "a", 1.0), ("here", "b", 2.0), ("there", "b", 3.0),
    ]  # fmt: skip


def test_stored_rows_are_drawn_and_the_newest_commit_decides_the_exit_code(tmp_path: Path, capsys):
    file = tmp_path / "trend.json"
    for rows, code in ([row("a", 1, x=1.0), row("b", 2, x=0.9)], 1), ([row("a", 1, x=1.0), row("b", 2, x=1.0)], 0):
        file.write_text(json.dumps(rows))
        assert trend.main(["--commits", "--rows", str(file)]) == code
        assert ("b (title of b): x fell from 1.00 to 0.90" in capsys.readouterr().out) == bool(code)
    assert (tmp_path / "trend.svg").read_text().startswith("<?xml")


def test_a_commit_is_measured_on_its_own(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(trend, "measured", lambda commit, o: row(commit, int(commit), x=float(commit)))
    rows = str(tmp_path / "trend.json")
    assert trend.main(["--commits", "2", "1", "--rows", rows]) == 0
    assert [r["commit"] for r in json.loads(Path(rows).read_text())] == ["1", "2"]


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["--games", "pongg"], "nearest: pong"),
        (["--seconds", "0"], "must be above 0"),
        (["--commits", "no-such-commit"], "no-such-commit"),
    ],
)
def test_bad_input_is_one_line(argv: list[str], part: str, tmp_path: Path, capsys):
    assert trend.main([*argv, "--rows", str(tmp_path / "trend.json")]) == 2
    assert part in (err := capsys.readouterr().err) and err.count("\n") == 1


@pytest.mark.slow
def test_ratios_of_this_checkout(monkeypatch):
    # Pong runs without its translation to C++, whose compilation would take 20 s.
    monkeypatch.setattr("accel_rl.emulator.translation.translate", lambda game: None)
    found = ratios("pong", seconds=0.02, turns=1)
    assert set(found) == {"VectorEnv, pong", "sampling, pong"} and min(found.values()) > 0
