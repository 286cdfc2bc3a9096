"""Commands that run sweeps and benchmarks."""

import re
import sys

import pytest

from accel_rl.cli.main import COMMANDS, PLACES, function_of, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_function(command):
    assert callable(function_of(command)) and {*PLACES} == {*COMMANDS}


def test_bench_measures_a_sampler(capsys):
    small = ["--workers", "1", "--envs-per-worker", "2", "--seconds", "0.05", "--repeats", "1"]
    assert main(["bench", "--game", "pong", *small]) == 0
    assert re.search(
        r"random actions +[\d,]+ env steps/s.*\na2c's network +[\d,]+ env steps/s", capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--gam", "pong", "--sec", "1"], "--gam"),
        (["train"], "python -m benchmarks.train"),
        (["--seconds", "0"], "must be above 0"),
        (["--repeats", "0"], "at least 1"),
        (["--game", "pon"], "nearest: pong"),
        (["--agents", "ppoo"], "ppo"),
    ],
)
def test_impossible_options_of_bench_are_one_line(words, part, capsys):
    assert main(["bench", *words]) == 2
    assert part in (err := capsys.readouterr().err) and err.count("\n") == 1


def test_a_sweep_and_its_status(tmp_path, capsys):
    out = str(tmp_path / "sweep")
    grid = ["stooke:figure_8", "--dry-run", "--out", out]
    assert main(["sweep", *grid]) == 0 and "slot" in capsys.readouterr().out
    assert main(["status", out]) == 2
    assert out in capsys.readouterr().err


def test_an_experiment_is_found_by_paper_module_or_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "grids").mkdir()
    source = "from accel_rl.settings.train import default_config\n\n\ndef one():\n    return default_config('a2c')\n"
    (tmp_path / "grids" / "small_grids.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    planned = ["--dry-run", "--gpus", "none"]
    for name in ("stooke:figure_8", "accel_rl.papers.stooke:figure_8", "grids/small_grids.py:one"):
        assert main(["sweep", name, *planned, "--override", "game=pong"]) == 0, name
    capsys.readouterr()
    assert main(["sweep", "stoke:figure_8", *planned]) == 2
    assert "stooke" in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert main(["sweep", "grids/missing.py:one", *planned]) == 2
    assert "missing" in (err := capsys.readouterr().err) and err.count("\n") == 1
