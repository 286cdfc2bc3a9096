"""A sweep in a folder from another person writes no file outside this folder."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config
from accel_rl.sweeps.feeder import Feeder
from accel_rl.sweeps.sweep_display import differing_parts
from accel_rl.sweeps.sweep_display import main as status
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.text.errors import ConfigError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sweep" / "a").mkdir(parents=True)
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps({"runs": {"a": {}}}))
    return SweepFolder(tmp_path / "sweep")


@pytest.mark.parametrize("name", [".lock", "events.log", "a/log.txt"])
def test_a_link_is_refused_before_the_sweep_starts(folder, tmp_path, name):
    (folder.path / name).symlink_to(tmp_path / "thesis")
    with pytest.raises(ConfigError, match=f"{name} is a link"), folder.locked():
        pass
    folder.event("an event")
    assert (tmp_path / "thesis").read_text() == "mine"


def test_a_runs_output_is_not_written_through_a_link(folder, tmp_path):
    folder.log("a").symlink_to(tmp_path / "thesis")
    feeder = SimpleNamespace(folder=folder)
    with pytest.raises(ConfigError, match=r"log\.txt is a link"):
        Feeder._start(feeder, SimpleNamespace(gpus=(), cores=(0,)), "a")
    assert (tmp_path / "thesis").read_text() == "mine"


@pytest.mark.parametrize("name", ["../other", "/tmp/other", "a/../../other"])
def test_a_runs_name_does_not_lead_out_of_the_folder(folder, name):
    (folder.path / "sweep.json").write_text(json.dumps({"runs": {name: {}}}))
    with pytest.raises(ConfigError, match="outside of the sweep's folder"):
        _ = folder.names


def test_temporary_files_are_removed_under_the_lock(folder):
    left = folder.path / f".state.json.{'0' * 32}.tmp"
    left.write_text("{}")
    with folder.locked():
        assert not left.exists()


def test_names_of_a_foreign_sweep_are_text(folder, capsys, monkeypatch):
    """In the names of runs, escape sequences and markup of the package rich are printed as text."""
    monkeypatch.setenv("COLUMNS", "200")
    name = "\x1b[2J[red]x"
    RunFolder.create(folder.path / name, replace(fill_in(default_config("ppo")), env_steps=10))
    folder.write("sweep.json", {"runs": {name: {}}})
    assert status([str(folder.path)]) == 0
    out = capsys.readouterr().out
    assert r" \x1b[2J[red]x " in out and "\x1b" not in out


def test_a_table_has_the_parts_of_names_in_which_runs_differ():
    names = ["id=CartPole-v1,lr=0.1,seed=0", "id=CartPole-v1,lr=0.1,seed=1", "id=CartPole-v1,lr=0.2,seed=0"]
    assert [*differing_parts(names).values()] == ["lr=0.1,seed=0", "lr=0.1,seed=1", "lr=0.2,seed=0"]
    assert differing_parts(names[:1]) == {names[0]: names[0]} and differing_parts(["a", "a,b"]) == {
        "a": "a",
        "a,b": "b",
    }
