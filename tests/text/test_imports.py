"""A user's modules are imported from the current folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from accel_rl.settings.registry import find, find_algorithm
from accel_rl.text import imports
from accel_rl.text.errors import ConfigError
from accel_rl.text.imports import import_user_module

TRAIN = """
import sys
sys.path = [folder for folder in sys.path if folder]
from accel_rl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
SMALL = ["--envs", "2", "--horizon", "8", "--env-steps", "16", "--workers", "1", "--evaluation.interval", "0"]


def test_the_current_folder_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_a_user.py").write_text("found = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert import_user_module("module_of_a_user").found == 1


def test_a_current_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match="no module 'module_of_nobody'"):
        find_algorithm("module_of_nobody:Thing")


def test_a_module_that_lacks_a_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacks_a_package.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    line = r"algorithm 'lacks_a_package:Thing': it cannot be imported \(No module named 'no_such_package'\)"
    with pytest.raises(ConfigError, match=line):
        find_algorithm("lacks_a_package:Thing")


@pytest.mark.slow
def test_files_of_the_current_folder_do_not_replace_modules_of_python(tmp_path: Path) -> None:
    for name in ("random", "queue", "numbers", "selectors"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the current folder was imported')\n")
    command = [sys.executable, "-P", "-c", TRAIN, "train", "a2c", "--env", "CartPole-v1", *SMALL, "--run-dir", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


FIND = "import sys; from accel_rl.settings.registry import find; print(find(sys.argv[1]).__module__)"


def found_from(folder: Path, name: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-P", "-c", FIND, name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_experiments_of_a_clone_are_found_from_every_folder(tmp_path: Path) -> None:
    done = found_from(tmp_path, "experiments.cpu:pong_pqn")
    assert done.stdout == "experiments.cpu\n", done.stderr


@pytest.mark.slow
def test_a_users_folder_named_like_one_of_the_clone_is_found(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.py").write_text("def grid(): ...\n")
    done = found_from(tmp_path, "experiments.mine:grid")
    assert done.stdout == "experiments.mine\n", done.stderr
    assert found_from(tmp_path, "experiments.cpu:pong_pqn").stdout == "experiments.cpu\n"


def test_without_a_clone_experiments_is_named_as_a_folder_of_the_repository(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p and not (Path(p) / "experiments").is_dir()])
    monkeypatch.setattr(imports.os, "getcwd", lambda: "")
    for name in [name for name in sys.modules if name.partition(".")[0] == "experiments"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match="no module 'experiments' on the path; it is a folder of the repository"):
        find("experiments.cpu:pong_pqn")
