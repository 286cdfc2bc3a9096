"""config.json: the format version, wrong fields, and the files of recorded runs."""

import json
import shutil
from pathlib import Path

import pytest

import accel_rl
from accel_rl.cli.main import main
from accel_rl.report.runs import read_runs
from accel_rl.settings import train
from accel_rl.settings.config_file import FORMAT, read_file
from accel_rl.settings.train import TrainConfig, default_config, read_settings
from accel_rl.text.errors import ConfigError

RECORDED = sorted((Path(__file__).parents[2] / "experiments/results").glob("*/config.json"))


def error_of(call, *args) -> str:
    with pytest.raises(ConfigError) as e:
        call(*args)
    assert "\n" not in str(e.value)
    return str(e.value)


@pytest.mark.parametrize("file", RECORDED, ids=lambda p: p.parent.name)
def test_a_recorded_run_opens_everywhere(file, tmp_path, recwarn):
    run = accel_rl.Run.load(file.parent)
    assert run.config.env.game == file.parent.name.partition("_")[0] and len(run.metrics["score"])
    if file == RECORDED[-1]:
        assert main(["plot", str(file.parent), "--out", str(tmp_path / "curve.png")]) == 0
        assert main(["report", str(file.parent), "--out", str(tmp_path / "report.html")]) == 0
    assert not [w for w in recwarn if "config.json has no" in str(w.message)]


def test_all_recorded_runs_are_found():
    assert len(RECORDED) == 9


def test_asynchronous_a2c_is_reported_as_a3c():
    named = {run.name: run.setting for run in read_runs([f.parent for f in RECORDED])}
    assert named["pong_a3c"].startswith("A3C") and named["pong_a2c_seed1"].startswith("A2C")


def test_a_new_file_carries_the_format():
    values = default_config("ppo").to_dict()
    assert values["format"] == FORMAT and TrainConfig.from_dict(values) == default_config("ppo")


@pytest.mark.parametrize("version", [FORMAT + 1, FORMAT - 1, "2", None, True])
def test_a_format_that_is_not_known(tmp_path, version):
    (tmp_path / "config.json").write_text(json.dumps({**default_config("ppo").to_dict(), "format": version}))
    message = error_of(accel_rl.Run.load, tmp_path)
    assert f"field format is {version!r}: this version of accel_rl reads format {FORMAT} alone" in message
    assert str(tmp_path / "config.json") in message and message == error_of(read_settings, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("algorithm", 3, "a text"),
        ("algorithm", None, "a text"),
        ("env", None, "a group of settings"),
        ("env", ["pong"], "a group of settings"),
        ("algo", "ppo", "a group of settings"),
    ],
)
def test_a_group_of_a_wrong_type_is_one_line_for_every_reader(tmp_path, name, value, kind):
    (tmp_path / "config.json").write_text(json.dumps({**default_config("ppo").to_dict(), name: value}))
    message = error_of(accel_rl.Run.load, tmp_path)
    assert message == f"{tmp_path / 'config.json'}: --{name} {value!r}: must be {kind}"
    assert message == error_of(read_settings, tmp_path)
    (tmp_path / "metrics.csv").write_text("env_steps,score\n1,2\n")
    assert main(["plot", str(tmp_path)]) == 2


@pytest.mark.parametrize("algorithm", ["a2c", "nobody:Has"])
def test_an_unknown_setting_is_refused_without_importing(tmp_path, algorithm):
    values = default_config("a2c").to_dict() | {"algorithm": algorithm}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert read_settings(tmp_path)["algorithm"] == algorithm
    values["sampler"]["grups"] = 2
    (tmp_path / "config.json").write_text(json.dumps(values))
    message = error_of(read_settings, tmp_path)
    assert "unknown field sampler.grups; nearest: groups" in message
    assert main(["plot", str(tmp_path)]) == 2


def test_a_missing_setting_is_named(monkeypatch):
    values = default_config("a2c").to_dict()
    del values["algo"]["gamma"], values["precision"]
    said: list[str] = []
    monkeypatch.setattr(train, "say_once", said.append)
    assert TrainConfig.from_dict(values) == default_config("a2c")
    assert said == ["config.json has no algo.gamma, precision: defaults of this version are used"]


def test_files_that_are_no_configuration(tmp_path):
    assert "no config.json" in error_of(read_file, tmp_path)
    shutil.copytree(RECORDED[0].parent, tmp_path / "x")
    assert f"did you mean {tmp_path / 'x'}" in error_of(read_file, tmp_path)
    for text, line in (("{", "is not readable"), ("[]", "is no configuration")):
        (tmp_path / "config.json").write_text(text)
        assert line in error_of(read_file, tmp_path)
