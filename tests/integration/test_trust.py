"""Python code that another person's run folder names is executed only if the user trusts the folder."""

import inspect
import json
import shutil
import sys

import pytest

import accel_rl
from accel_rl.api import callbacks
from accel_rl.cli.main import main
from accel_rl.parsing.help import options_of
from accel_rl.settings.train import default_config
from accel_rl.settings.trust import CODE, code_names
from accel_rl.sweeps.layout import Size
from accel_rl.sweeps.sweep_command import SweepOptions, make_grid
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.sweeps.sweep_plan import planned
from accel_rl.text.errors import ConfigError
from accel_rl.training.observers import BUILT_IN, BUILT_IN_SINKS
from tests.integration.runs import run

EVIL = """
from pathlib import Path
Path("ran").touch()
from accel_rl.algos.ppo import PPO as X
from accel_rl.settings.train import default_config
def settings():
    return default_config("evil:X")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    more = {"envs": 4, "horizon": 10, "minibatch": 20, "env_steps": 40, "evaluation__interval": 0}
    return accel_rl.train("ppo", env="CartPole-v1", engine="in-process", run_dir=path, **more).path


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """Change to a folder that contains a run folder and the module evil.py."""
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    _forget_modules()


def _forget_modules():
    for name in sys.modules.keys() & {"evil", "mine"}:
        del sys.modules[name]


def change(folder, setting, value):
    file = folder / "run" / "config.json"
    values = json.loads(file.read_text())
    group, _, last = setting.rpartition(".")
    (values[group] if group else values)[last] = [value] if setting in ("callback", "sink") else value
    file.write_text(json.dumps(values))


@pytest.mark.parametrize("setting", CODE)
@pytest.mark.parametrize("command", ["resume", "evaluate", "watch", "export", "starts"])
def test_code_of_a_foreign_folder_is_refused(folder, capsys, setting, command):
    change(folder, setting, "evil:X(a=1)" if setting in ("callback", "sink") else "evil:X")
    assert main([command, "run"]) == 2
    assert not (folder / "ran").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert f"would import and run --{setting} evil:X" in line and "--trust" in line


def test_a_function_of_the_package_is_no_environment(folder, capsys):
    change(folder, "env.id", "accel_rl.cli.main:main")
    assert main(["evaluate", "run"]) == 2 and "--env.id accel_rl.cli.main:main" in capsys.readouterr().err


SENDING = [
    ("callback", "WandbArtifacts"),
    ("callback", "accel_rl.api.callbacks:WandbArtifacts"),
    ("sink", "MLflow"),
    ("sink", "accel_rl.metrics.mlflow:MLflow(experiment='a')"),
    ("sink", "accel_rl.training.observers:TensorBoardSink"),
    ("sink", "accel_rl.metrics.sinks:TensorBoardSink(folder='outside', env_steps=0)"),
]


@pytest.mark.parametrize(("setting", "name"), SENDING)
def test_observers_that_send_data_are_trusted_like_a_users(folder, capsys, setting, name):
    change(folder, setting, name)
    assert main(["resume", "run", "--env-steps", "80"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"would import and run --{setting} {name}" in line and "--trust" in line
    assert not (folder / "outside").exists()


@pytest.mark.parametrize("name", ["SaveBest", "accel_rl.api.callbacks:StopAtScore(score=1000)"])
def test_callbacks_that_write_to_the_run_folder_need_no_trust(folder, name):
    change(folder, "callback", name)
    assert main(["resume", "run", "--env-steps", "80"]) == 0


def test_only_known_callbacks_need_no_trust():
    """A run with a built-in callback or sink needs trust, except for callbacks that write only to the run folder."""
    local = {name for name in BUILT_IN if not code_names({"callback": [name]})}
    assert local == {"StopAtScore", "SaveBest", "VideoEvery"}
    for name in local:
        source = inspect.getsource(getattr(callbacks, name))
        assert "import" not in source and "wandb" not in source
    assert all(code_names({"sink": [name]}) for name in BUILT_IN_SINKS)


@pytest.mark.parametrize("setting", CODE)
def test_plots_and_reports_import_no_code(folder, setting):
    change(folder, setting, "evil:X")
    (folder / "sweep.json").write_text(json.dumps({"runs": {"run": {}}, "experiment": "evil:settings"}))
    for command in ("plot", "report", "status"):
        assert main([command, "run" if command != "status" else "."]) in (0, 2)
    assert len(accel_rl.Run("run").metrics["env_steps"]) == 1
    assert not (folder / "ran").exists()


def test_python_imports_the_code_of_a_trusted_folder(folder, capsys):
    change(folder, "algorithm", "evil:X")
    run = accel_rl.Run.load("run")
    for act in (run.evaluate, run.resume, lambda: run.config, lambda: run.agent):
        with pytest.raises(ConfigError, match=r"--algorithm evil:X.*trust=True"):
            act()
    assert not (folder / "ran").exists()
    assert accel_rl.Run.load("run", trust=True).config.algorithm == "evil:X"
    assert (folder / "ran").exists()


@pytest.fixture
def sweep(folder):
    """The folder of a sweep of which no run has started, with the settings of the function mine:settings."""
    code = "import dataclasses\nfrom accel_rl.settings.train import default_config\n"
    code += "from accel_rl.envs.make import EnvConfig\n"
    code += "def settings():\n    env = EnvConfig(id='CartPole-v1')\n"
    code += "    return dataclasses.replace(default_config('evil:X'), env=env, env_steps=1000)\n"
    (folder / "mine.py").write_text(code)
    result = SweepFolder(folder / "sweep")
    runs = planned(make_grid("mine:settings", SweepOptions()), {"seed=0": Size(0)})
    plan = {"experiment": "mine:settings", "placing": {}, "slurm": False}
    result.create(runs, {name: {} for name in runs}, plan)
    _forget_modules()
    (folder / "ran").unlink()
    return folder


def test_a_sweep_trusts_the_code_of_its_experiment(sweep, capsys):
    again = ["sweep", "--resume", "sweep", "--dry-run"]
    assert main(again) == 2 and not (sweep / "ran").exists()
    assert "--algorithm evil:X" in capsys.readouterr().err
    assert main([*again, "--trust"]) == 0 and (sweep / "ran").exists()
    named = ["sweep", "mine:settings", "--resume", "--out", "sweep", "--dry-run"]
    assert main(named) == 0
    (file,) = sweep.glob("sweep/*/config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "sink": ["other:X"]}))
    assert main(named) == 2 and "--sink other:X" in capsys.readouterr().err


@pytest.mark.slow
def test_the_runs_of_a_sweep_are_not_disturbed(sweep):
    done = run("sweep", "mine:settings", "--resume", "--out", "sweep", "--gpus", "none", cwd=sweep)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_search_is_resumed_only_with_trust(folder, capsys):
    pytest.importorskip("optuna")
    search = {"trials": 1, "override": [], "scale": 1.0}
    SweepFolder(folder).create({}, {}, {"experiment": "evil:settings", "search": search, "placing": {}})
    assert main(["search", "--resume", "."]) == 2 and "evil:settings" in capsys.readouterr().err
    assert not (folder / "ran").exists()


def test_every_setting_that_may_name_code_is_checked():
    documented = {o.flag[2:] for o in options_of(default_config("ppo")) if "module:" in o.text}
    assert documented | {"algorithm", "sink"} == set(CODE)
