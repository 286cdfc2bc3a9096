"""The command `accel-rl train` with --config, --quiet and wrong arguments, and commands that do not import torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import accel_rl
from accel_rl.api.keywords import settings
from accel_rl.cli.main import main
from accel_rl.cli.train_command import parse_train
from accel_rl.settings.train import read_settings
from accel_rl.text.errors import ConfigError
from tests.report.dummies import dummy, write_sweep

SMALL = ("--env", "CartPole-v1", "--sampler.engine", "in-process", "--envs", "4", "--horizon", "32",
         "--minibatch", "64", "--evaluation.interval", "0")  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a finished run of one rollout."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    assert main(["train", "ppo", *SMALL, "--env-steps", "100", "--gamma", "0.9", "--run-dir", str(folder)]) == 0
    return folder


def line(capsys, *argv: str) -> str:
    """Run a command that must fail, and return its only line of output."""
    assert main([*argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.rstrip()


@pytest.mark.parametrize("file", ["", "config.json"])
def test_a_config_file_gives_the_settings_and_options_win(begun, tmp_path, capsys, file):
    argv = ["--config", str(begun / file), "--seed", "3", "--gamma", "0.8", "--run-dir", str(tmp_path / "run")]
    assert main(["train", *argv]) == 0
    assert capsys.readouterr().out.count("no effect") == 0
    old, new = read_settings(begun), read_settings(tmp_path / "run")
    assert old.pop("seed") == 0 and new.pop("seed") == 3 and old.pop("run_dir") != new.pop("run_dir")
    assert old["algo"].pop("gamma") == 0.9 and new["algo"].pop("gamma") == 0.8
    assert old == new


def test_a_bad_config_file_is_one_line(begun, tmp_path, capsys):
    values = json.loads((begun / "config.json").read_text())
    bad = tmp_path / "bad.json"

    def refused(text: str, *argv: str) -> str:
        bad.write_text(text)
        return line(capsys, "train", *argv, "--config", str(bad))

    assert "no such file" in line(capsys, "train", "--config", str(tmp_path / "none.json"))
    assert "is not readable" in refused("{")
    assert "field format is None" in refused("{}")
    assert "unknown field envs; nearest: env" in refused(json.dumps({**values, "envs": 4}))
    assert "unknown field algo.gama; nearest: gamma" in refused(
        json.dumps(values | {"algo": values["algo"] | {"gama": 1}})
    )
    assert "--algo.gamma 'x': must be a number" in refused(
        json.dumps(values | {"algo": values["algo"] | {"gamma": "x"}})
    )
    assert "its algorithm is ppo, and not dqn" in refused(json.dumps(values), "dqn")
    assert "would import and run --env.id os:system" in refused(json.dumps(values | {"env": {"id": "os:system"}}))


def test_a_run_ends_at_a_hundred_percent(begun, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("accel_rl.metrics.progress.PLAIN_INTERVAL_S", 0.0)
    assert main(["train", "ppo", *SMALL, "--env-steps", "100", "--run-dir", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("warning: --env-steps 100: the run ends with a whole rollout, at 128 env steps\n")
    assert "128/128 (100%)" in err and "%)" not in err.replace("(100%)", "")
    assert main(["runs", str(begun.parent)]) == 0
    assert "128/128" in capsys.readouterr().out


def test_a_quiet_run_prints_nothing(tmp_path, capfd):
    argv = ["--quiet", "--env-steps", "256", "--run-dir", str(tmp_path / "cli")]
    assert main(["train", "ppo", *SMALL, *argv]) == 0
    options = {"engine": "in-process", "envs": 4, "horizon": 64, "evaluation__steps": 32}
    run = accel_rl.train("ppo", env="CartPole-v1", env_steps=256, run_dir=tmp_path / "api", quiet=True, **options)
    run.resume(env_steps=512, quiet=True)
    assert capfd.readouterr() == ("", "") and "ACCEL_RL_QUIET" not in os.environ
    assert run.result.env_steps == 512


def test_an_output_that_was_asked_for_is_refused_and_not_dropped(tmp_path, capsys, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    argv = [*SMALL, "--wandb", "online", "--run-dir", str(tmp_path / "run")]
    assert "has no API key: run `wandb login`, or choose --wandb offline" in line(capsys, "train", "ppo", *argv)
    argv = ["--override", "wandb=online", "--out", str(tmp_path / "run")]
    assert "has no API key" in line(capsys, "sweep", "tests.sweeps.grids:small", *argv)
    argv = [*SMALL, "--run-dir", str(tmp_path / "run")]
    if "pygame" not in sys.modules:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert "cannot be rendered without pip" in line(capsys, "train", "ppo", *argv, "--callback", "VideoEvery")
        assert "--sink MLflow needs the package" in line(capsys, "train", "ppo", *argv, "--sink", "MLflow")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("train --game pong ppo", "accel-rl train: the algorithm comes first: accel-rl train ppo ..."),
        ("train tests.sweeps.spaces:cartpole", "missing a required argument: 'trial'"),
        ("sweep tests.sweeps.spaces:cartpole", "missing a required argument: 'trial'"),
        ("sweep stooke", "such as stooke:a2c_ranks, stooke:a2c_scaling"),
        ("sweep --list", "the papers are daley, dalton"),
        ("sweep nofile:grid", "there is no module 'nofile' on the path"),
        ("train ppo --env CartPole-v1 --optimizer adamw", "use torch:AdamW"),
        ("train ppo --env CartPole-v1 --cores 0-4095", "is not allowed; allowed: "),
        ("train ppo --env CartPole-v1 --gpus 1-0", "--gpus '1-0' is no list of numbers such as 0-3,8"),
        ("doctor --device cuda", "the algorithm is missing: accel-rl doctor ppo --device cuda"),
        ("enjoy runs", "unknown command 'enjoy'"),
        ("list", "; use runs"),
        ("plot runs --smooth 9", "means of the last 100 episodes"),
        ("train ppo --env CartPole-v1 --run-dir=", "--run-dir '': must be the name of a folder"),
    ],
)
def test_a_mistake_is_one_line_that_helps(argv, says, capsys):
    assert line(capsys, *argv.split()).endswith(says) or says in line(capsys, *argv.split())


def test_a_removed_folder_is_one_line(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert line(capsys, "runs", str(tmp_path)).endswith("the current folder was removed: change to another one")


def test_the_file_of_a_run_is_not_its_folder(begun, capsys):
    assert line(capsys, "resume", str(begun / "config.json")).endswith(f"is a file: give the run's folder {begun}")


def test_lists_of_numbers_have_one_notation():
    words = ["a2c", "--game", "pong", "--cores", "0-2,5", "7", "--gpus", "0-2,5"]
    config = parse_train(words, "accel-rl train", "")
    assert config.sampler.cores == (0, 1, 2, 5, 7) and config.distributed.named_gpus == [0, 1, 2, 5]
    assert settings("a2c", None, {"game": "pong", "gpus": [0, 1], "cores": range(2)}).distributed.gpus == "0,1"
    with pytest.raises(ConfigError, match="--gpus cuda:"):
        accel_rl.train("a2c", game="pong", gpus=range(1_000, 1_002), env_steps=1)


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_that_list_do_not_import_torch(tmp_path):
    """Commands that only print lists do not import torch, which would take seconds and 500 MB of memory."""
    sweep = write_sweep(tmp_path / "sweep", "stooke:figure_3")
    dummy(sweep / "a")
    plan = {"experiment": "stooke:figure_3", "runs": {"a": {}}, "sizes": {}}
    (sweep / "sweep.json").write_text(json.dumps(plan))
    commands = [["--help"], ["--version"], ["games"], ["train", "--help"], ["runs", str(sweep)], ["status", str(sweep)]]
    code = f"""
import sys
from accel_rl.cli.main import main
for words in {commands}:
    assert main(words) == 0, words
    assert "torch" not in sys.modules, words
"""
    printed = python(code)
    assert "pong" in printed and "3,000/3,000" in printed and "1 run: 1 waiting" in printed
    assert "│" not in printed, "a table has a box only on a terminal"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_an_output_cannot_encode_is_escaped(begun, tmp_path, encoding):
    folder = tmp_path / "é"
    folder.symlink_to(begun)
    code = f"from accel_rl.cli.main import main; raise SystemExit(main(['plot', {str(folder)!r}]))"
    printed = python(code, PYTHONIOENCODING=encoding)
    assert printed.startswith(f"{tmp_path}/{'é' if encoding == 'utf-8' else chr(92) + 'xe9'}/curve.png: PPO")
    assert Path(begun / "curve.png").stat().st_size > 5_000
