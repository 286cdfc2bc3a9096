import re
from types import SimpleNamespace

import pytest

from accel_rl.metrics import progress
from accel_rl.metrics.progress import ProgressDisplay, human_score, human_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599.7, "1:00:00"), (7265, "2:01:05"), (float("inf"), "?")]
    + [(float("nan"), "?")],
)
def test_human_time(seconds, text):
    assert human_time(seconds) == text


def test_human_score():
    assert human_score(float("nan")) == "-" and human_score(-20.96) == "-21.0"


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    # If FORCE_COLOR or TTY_COMPATIBLE is set, the package rich treats any output as a terminal.
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return clock


def test_plain_lines_where_nobody_watches(clock, capsys):
    """If stderr is not a terminal, a line with the rate since the previous line is printed every 10 s."""
    display = ProgressDisplay(total=10_000, done=2_000, label="a2c pong")
    clock.now += 5
    display.update(2_500, 1.0)  # too early
    clock.now += 5
    display.update(4_000, -20.25)
    clock.now += 1
    display.update(9_000, 1.0)  # too early again
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "a2c pong  4,000/10,000 (40%)  200 steps/s  score -20.2  0:30 left\n"
    display.close()


def test_no_time_is_left_past_the_end(clock, capsys):
    display = ProgressDisplay(total=100, done=0, label="x")
    clock.now += 10
    display.update(104, 1.0)
    assert capsys.readouterr().err.endswith("0:00 left\n")
    display.close()


def test_a_pause_does_not_count_in_the_rate(clock, capsys):
    display = ProgressDisplay(total=10_000, done=0, label="x")
    clock.now += 10
    display.update(1_000, float("nan"))
    display.pause("evaluating")
    clock.now += 1000
    display.resume(1_000)
    clock.now += 10
    display.update(2_000, float("nan"))
    assert display.steps_per_s == 100.0
    err = capsys.readouterr().err
    assert re.findall(r"(\d+) steps/s  score -", err) == ["100", "100"] and "evaluating" in err
    display.close()


def test_a_notebook_has_one_bar_that_is_updated(monkeypatch, capsys):
    shown = []
    output = SimpleNamespace(update=lambda data, raw: shown.append(data))
    monkeypatch.setattr(progress, "notebook_output", lambda: output)
    monkeypatch.setattr(progress, "NOTEBOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(progress, "terminal", lambda: None)
    display = ProgressDisplay(1000, 0, "ppo <pong>")
    for done in (250, 500):
        display.update(done, 1.5)
    display.close()
    assert [data["text/plain"].split("  ")[1] for data in shown] == ["250/1,000 (25%)", "500/1,000 (50%)"]
    assert '<progress max="1000" value="500"></progress> ppo &lt;pong&gt;  500' in shown[-1]["text/html"]
    assert capsys.readouterr().err == ""


def test_outside_of_a_notebook_there_is_no_output():
    assert progress.notebook_output() is None
