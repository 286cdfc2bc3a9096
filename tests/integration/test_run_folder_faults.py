"""Faults of a run folder: two processes, symbolic links, moved and removed folders, lost rows, closed file
descriptors."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

import accel_rl
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.envs.make import EnvConfig
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.train import default_config
from accel_rl.text.errors import RunError
from tests.integration.runs import command, progressed, rows, run, start, wait_for
from tests.marks import slow

PLAIN = (
    *("train", "ppo", "--env", "CartPole-v1", "--envs", 4, "--horizon", 10, "--minibatch", 20),
    *("--evaluation.interval", 0, "--decorrelation-steps", 0, "--log.interval", 80, "--checkpoint.interval", 400),
)
SMALL = (*PLAIN, "--engine", "in-process")


def only_line(done) -> str:
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_one_process_at_a_time_trains_a_run(tmp_path):
    folder = tmp_path / "run"
    process = start(*SMALL, "--env-steps", 1_000_000, "--run-dir", folder)
    try:
        wait_for(lambda: progressed(folder, 6))
        line = only_line(run("resume", folder))
        assert f"{folder} is in use by process {process.pid} on " in line
        assert "already holds a run" in only_line(run(*SMALL, "--env-steps", 400, "--run-dir", folder))
    finally:
        process.kill()
        process.communicate()
    with RunFolder(folder).locked():  # A killed process leaves no lock.
        pass


@pytest.mark.slow
def test_a_link_in_a_run_folder_is_refused_before_anything_is_removed(tmp_path):
    folder, others = tmp_path / "run", tmp_path / "others"
    others.mkdir()
    (others / "rows-0123456789abcdef.safetensors").write_text("mine")
    assert run(*SMALL, "--env-steps", 400, "--run-dir", folder).returncode == 0
    (folder / "segments").symlink_to(others)
    line = only_line(run("resume", folder, "--env-steps", 800))
    assert f"{folder / 'segments'} is a link" in line and len(list(others.iterdir())) == 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(*SMALL, "--env-steps", 400, "--run-dir", folder).returncode == 0
    return folder


@pytest.mark.parametrize(
    "name",
    [
        *("metrics.csv", ".launches.json.tmp"),
        *map(slow, (".lock", "events.log", ".metrics.csv.tmp", "changes-2.diff", "final")),
    ],
)
def test_a_link_in_a_foreign_run_folder_leads_to_no_file_of_the_user(trained, tmp_path, name):
    folder, thesis = tmp_path / "run", tmp_path / "thesis"
    shutil.copytree(trained, folder)
    (folder / name).unlink(missing_ok=True)
    thesis.mkdir() if name == "final" else thesis.write_text("mine")
    (folder / name).symlink_to(thesis)
    done = run("resume", folder, "--env-steps", 800)
    assert list(thesis.iterdir()) == [] if name == "final" else thesis.read_text() == "mine"
    if name in (".lock", "events.log", "final"):
        assert f"{folder / name} is a link" in only_line(done) and done.returncode == 2
    else:
        assert done.returncode == 0, done.stderr


def test_a_run_whose_folder_is_moved_saves_in_the_new_place_and_ends(tmp_path):
    folder, moved = tmp_path / "run", tmp_path / "moved"
    process = start(*SMALL, "--env-steps", 1_000_000, "--run-dir", folder)
    try:
        wait_for(lambda: progressed(folder, 1))
        folder.rename(moved)
        folder.mkdir()
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    (line,) = err.splitlines()
    assert process.returncode == 1 and f"{folder} was moved to {moved}" in line, err
    assert f"accel-rl resume {moved}" in line and not list(folder.iterdir())
    end = (Checkpoints(moved / "checkpoints").steps()[-1] // 80 + 4) * 80
    done = run("resume", moved, "--env-steps", end)
    assert done.returncode == 0, done.stderr
    assert [int(row["env_steps"]) for row in rows(moved)] == list(range(80, end + 1, 80))


def test_a_run_whose_folder_is_removed_ends(open_trainer, tmp_path):
    default = default_config("a2c")
    trainer = open_trainer(
        replace(
            default,
            env=EnvConfig(id="CartPole-v1"),
            env_steps=4_000,
            sampler=replace(default.sampler, engine="in-process", decorrelation_steps=0),
            evaluation=replace(default.evaluation, interval=0),
        )
    )
    folder = trainer.run_folder.path
    trainer._cycle()
    shutil.rmtree(folder)
    folder.mkdir()
    for write in (trainer._housekeeping, trainer.saver.save):
        with pytest.raises(RunError, match="was removed while the run trained"):
            write()
    trainer.run_folder.event("not written")
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_lost_rows_are_reported_and_abandoned_checkpoints_stay(tmp_path):
    folder = tmp_path / "run"
    assert run(*SMALL, "--env-steps", 1_200, "--run-dir", folder).returncode == 0
    before = rows(folder)
    lines = (folder / "metrics.csv").read_text().splitlines(keepends=True)
    (folder / "metrics.csv").write_text("".join(lines[:2]))
    older = folder / "checkpoints" / f"{400:012d}"
    done = run("resume", folder, "--checkpoint", older)
    assert done.returncode == 0 and "2 later checkpoints (up to 1,200 env steps)" in done.stdout
    assert "2 later checkpoints" in (folder / "events.log").read_text()
    scores = [[row["env_steps"], row["score"]] for row in (before[0], *before[5:])]
    assert [[row["env_steps"], row["score"]] for row in rows(folder)] == scores
    assert "metrics.csv has 1 of the 5 rows" in (folder / "events.log").read_text()
    names = sorted(p.name for p in (folder / "abandoned-1").iterdir())
    assert names == [f"{n:012d}" for n in (800, 1_200)]


CLOSED = ("<&- >&- 2>&-", "<&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-")


@pytest.mark.slow
@pytest.mark.parametrize("closed", CLOSED)
def test_a_worker_never_prints_into_the_rollouts(closed, tmp_path):
    (tmp_path / "prints.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Prints(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        print('x' * 100_000, flush=True)\n"
        "        return super().step(action)\n"
        "def make():\n"
        "    return Prints()\n"
    )
    words = [re.sub("CartPole-v1", "prints:make", word) for word in map(str, (*PLAIN, "--workers", 1))]
    args = command(*words, "--env-steps", 80, "--run-dir", tmp_path / "run")
    done = subprocess.run(["bash", "-c", f'"$@" {closed}', "-", *args], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["env_steps"] for row in rows(tmp_path / "run")] == ["80"]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["env"]["id"] == "prints:make"


def test_a_folder_that_is_moved_while_the_run_begins_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.setattr(launches, "record", lambda run, env_steps: folder.rename(tmp_path / "elsewhere"))
    with pytest.raises(RunError, match=r"run was moved or removed while the run began"):
        accel_rl.train("a2c", env="CartPole-v1", engine="in-process", env_steps=100, run_dir=folder)
