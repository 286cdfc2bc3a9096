"""Commands that run programs of launch/ and benchmarks/."""

import importlib
from importlib.util import find_spec

import pytest

from accel_rl.cli.bench import PROGRAMS
from accel_rl.cli.main import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_file(command):
    assert callable(importlib.import_module(f"accel_rl.cli.{command}").main)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_benchmark_is_there(name):
    assert find_spec(f"benchmarks.{name}")


def test_a_benchmark_gets_its_options(capsys):
    assert main(["bench", "sampler", "--gam", "pong"]) == 2
    assert "--gam" in capsys.readouterr().err
    assert main(["bench"]) == 0 and "parameter_server" in capsys.readouterr().out
    assert main(["bench", "smapler"]) == 2
    assert "did you mean" in (err := capsys.readouterr().err) or "sampler" in err


def test_a_sweep_and_its_status(tmp_path, capsys):
    out = str(tmp_path / "sweep")
    grid = ["experiments.cpu:cartpole_c51", "--dry-run", "--out", out]
    assert main(["sweep", *grid]) == 0 and "slot" in capsys.readouterr().out
    assert main(["status", out]) == 2
    assert out in capsys.readouterr().err
