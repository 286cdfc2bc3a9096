"""launches.json records the machine, command and files of each start and resume of a run."""

import json
import subprocess

import accel_rl
from accel_rl.cli.main import main
from accel_rl.machine import hardware
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder

RUN = ["train", "a2c", "--env", "CartPole-v1", "--envs", "4", "--engine", "in-process", "--env-steps", "80"]
RUN += ["--evaluation.interval", "0", "--decorrelation-steps", "0"]


def test_each_begin_and_resume_is_recorded(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.setattr("sys.argv", ["/usr/bin/accel-rl", *RUN])
    assert main([*RUN, "--run-dir", str(folder)]) == 0
    monkeypatch.setattr("sys.argv", ["/usr/bin/accel-rl", "resume", "a folder"])
    assert main(["resume", str(folder), "--env-steps", "160"]) == 0
    first, second = launches.read(RunFolder(folder))
    assert first["command"] == "accel-rl " + " ".join(RUN) and second["command"] == "accel-rl resume 'a folder'"
    assert (first["env_steps"], second["env_steps"]) == (0, 80)
    assert first["cpu"] == hardware.cpu_name() != "" and first["cores"] == len(hardware.usable_cores())
    (folder / "versions.json").write_text("{}")
    assert main(["resume", str(folder), "--env-steps", "240"]) == 0
    assert json.loads((folder / "versions.json").read_text()) == first["versions"]
    assert first["host"] and first["gpus"] == hardware.gpu_models()
    assert first["versions"]["accel_rl"] == accel_rl.__version__ and first["versions"]["torch"]


def test_the_users_files_are_named_by_git(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.mkdir()

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@y")
        return subprocess.run(["git", *who, *words], cwd=mine, check=True, capture_output=True, text=True).stdout

    monkeypatch.chdir(mine)
    folder = RunFolder(tmp_path)
    launches.record(folder, 0)
    git("init", "-q")
    (mine / "my_ppo.py").write_text("x = 1\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    launches.git_revision.cache_clear()
    launches.record(folder, 10)
    (mine / "my_ppo.py").write_text("x = 2\n")
    launches.git_revision.cache_clear()
    launches.record(folder, 20)
    none, clean, changed = launches.read(folder)
    revision = git("rev-parse", "HEAD").strip()
    assert (none["git"], clean["git"], changed["git"]) == (None, revision, revision + "+")
    assert "changes" not in none and "changes" not in clean and changed["changes"] == "changes-3.diff"
    assert "+x = 2" in (tmp_path / "changes-3.diff").read_text()


def test_a_damaged_file_decides_nothing(tmp_path):
    for text in ("{", "3", "[1]"):
        (tmp_path / launches.FILE).write_text(text)
        assert launches.read(RunFolder(tmp_path)) == []
    launches.record(RunFolder(tmp_path), 0)
    assert len(json.loads((tmp_path / launches.FILE).read_text())) == 1


def test_the_revision_is_that_of_accel_rl_or_else_of_the_users_files():
    assert launches.revision({"git": "a", "versions": {"git": "b"}}) == "b"
    assert launches.revision({"git": "a", "versions": {"git": None}}) == launches.revision({"git": "a"}) == "a"
    assert launches.revision({"git": None}) == launches.revision({}) == ""


def test_parts_of_a_run():
    """A launch's part of a run ends at the env steps at which a later launch has resumed the run."""
    begins = [{"env_steps": n} for n in (0, 50, 50, 20, 80)]
    assert list(launches.parts(begins, 100)) == [(0, 0, 20), (3, 20, 80), (4, 80, 100)]
    assert list(launches.parts(begins, 80)) == [(0, 0, 20), (3, 20, 80)]
    assert list(launches.parts([], 100)) == [(0, 0, 100)] and list(launches.parts([], 0)) == []
