"""`accel-rl runs`: a list of runs, selected by settings, and the settings in which the runs differ."""

import dataclasses
import json
import os
import shutil
import time

import pytest

from accel_rl.cli.main import main
from accel_rl.envs.make import EnvConfig
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import default_config


@pytest.fixture
def runs(tmp_path):
    for name, algorithm, rate, steps, score in (("one", "ppo", 1e-3, 500, 9.0), ("two", "ppo", 1e-4, 1000, 20.0),
                                                ("three", "a2c", 1e-4, 1000, 3.0)):  # fmt: skip
        config = default_config(algorithm)
        algo = dataclasses.replace(config.algo, learning_rate=rate)
        config = dataclasses.replace(config, env=EnvConfig(id="CartPole-v1"), algo=algo, env_steps=1000)
        run = RunFolder.create(tmp_path / name, resolve(config))
        (run.path / "metrics.csv").write_text(f"env_steps,updates,score\n10,1,1\n{steps},9,{score}\n")
    return tmp_path


def lines(capsys, *argv: str) -> list[str]:
    assert main(["runs", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_runs_are_listed_with_their_differences(runs, capsys):
    head, one, three, two, *differences = lines(capsys, str(runs))
    assert head.split() == ["run", "algorithm", "environment", "seed", "env", "steps", "score", "age", "state"]
    assert one.split()[:6] == ["one", "ppo", "CartPole-v1", "0", "500/1,000", "9.0"] and one.endswith("stopped")
    assert two.endswith("finished") and three.split()[1] == "a2c"
    assert differences[0] == "settings that differ:"
    assert "  --algorithm: ppo (2 runs), a2c (1 run)" in differences
    assert "  --algo.learning-rate: 0.001 (1 run), 0.0001 (2 runs)" in differences
    # A2C has no setting clip-schedule, so that runs of PPO and A2C do not differ in this setting.
    assert not any("clip-schedule" in line for line in differences)


def test_runs_are_selected_and_sorted(runs, capsys):
    listed = lines(capsys, str(runs), "--where", "algorithm=ppo", "--sort", "score")
    assert [line.split()[0] for line in listed[1:3]] == ["two", "one"]
    assert listed[3:] == ["settings that differ:", "  --algo.learning-rate: 0.0001 (1 run), 0.001 (1 run)"]
    (_, only) = lines(capsys, str(runs), "--where", "learning-rate=1e-3")
    assert only.startswith("one ")
    (_, only) = lines(capsys, str(runs), "--where", "state=stopped", "--where", "env=CartPole-v1")
    assert only.startswith("one ")


def test_a_run_that_trains_is_running(runs, capsys):
    with RunFolder(runs / "one").locked():
        assert lines(capsys, str(runs), "--where", "state=running")[1].startswith("one ")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--where", "algoritm=ppo"], "--where algoritm: no run has this setting; nearest: algorithm"),
        (["--where", "ppo"], "--where ppo: must be NAME=VALUE, such as algorithm=ppo"),
        (["nowhere"], "nowhere holds no run"),
    ],
)
def test_mistakes_are_one_line(runs, capsys, tmp_path, monkeypatch, argv, line):
    monkeypatch.chdir(tmp_path)
    assert main(["runs", *([] if argv == ["nowhere"] else [str(runs)]), *argv]) == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1


@pytest.mark.parametrize(("later_s", "age"), [(98_000_000, "in the future"), (5, "0:00"), (-61, "1:01")])
def test_ages_after_the_clock_was_changed(runs, capsys, later_s, age):
    now = time.time()
    os.utime(runs / "one" / "metrics.csv", (now + later_s,) * 2)
    assert f"  {age}  stopped" in lines(capsys, str(runs))[1]


def test_escape_sequences_of_a_foreign_run_are_not_sent_to_the_terminal(runs, capsys, tmp_path):
    evil = "\x1b]0;title\x07\x1b[2J\nforged  line$\\frac$"
    shutil.move(runs / "one", runs / "one\x1b[2J")
    for name in ("one\x1b[2J", "two"):
        file = runs / name / "config.json"
        values = json.loads(file.read_text())
        values["env"]["id"] = evil
        values["env"]["kwargs"] = json.dumps({"evil\x1b[2J": 1} if name == "two" else {})
        file.write_text(json.dumps(values))
    assert main(["runs", str(runs)]) == 0
    assert main(["plot", str(runs), "--out", str(tmp_path / "curve.png")]) == 0
    assert main(["report", str(runs), "--out", str(tmp_path / "report"), "--reps", "20"]) == 0
    out = capsys.readouterr().out
    assert r"\x1b]0;title\x07\x1b[2J\nforged  line" in out and r"one\x1b[2J" in out
    assert all(c.isprintable() or c == "\n" for c in out) and "\nforged" not in out
