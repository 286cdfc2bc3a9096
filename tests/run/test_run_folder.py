import errno
import json
import os
import re
import resource
import threading
from dataclasses import replace

import pytest

from accel_rl.cli.main import main
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.run.run_folder import RunFolder, versions
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError

CONFIG = default_config("a2c")
CONFIG = replace(CONFIG, env=replace(CONFIG.env, game="pong"), seed=3, sampler=replace(CONFIG.sampler, cores=(0, 1)))


def error_of(call, *args) -> str:
    with pytest.raises(ConfigError) as e:
        call(*args)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_a_run_is_opened_as_it_was_created(tmp_path):
    path = tmp_path / "runs" / "one"
    RunFolder.create(path, CONFIG)
    run, config = RunFolder.open(path)
    assert config == CONFIG and run.path == path
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "versions.json"]


def test_the_files_of_killed_writes_are_removed(tmp_path):
    run = RunFolder.create(tmp_path, CONFIG)
    run.write_json("evaluations/1.json", {})
    for folder in (tmp_path, tmp_path / "evaluations"):
        (folder / f".1.json.{'0' * 32}.tmp").touch()
    with run.locked():
        left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")}
    assert left == {"config.json", "versions.json", ".lock", "evaluations", "evaluations/1.json"}


def test_a_run_is_never_begun_twice(tmp_path):
    RunFolder.create(tmp_path / "one", CONFIG)
    message = error_of(RunFolder.create, tmp_path / "one", CONFIG)
    assert f"accel-rl resume {tmp_path / 'one'}" in message
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", CONFIG)


@pytest.mark.parametrize(
    "name", ["best", "best/checkpoints", "best-training/segments", "ranks/1", "ranks/1/checkpoints"]
)
def test_a_link_at_any_depth_is_refused(tmp_path, name):
    """A run removes old checkpoints from its subfolders. If a subfolder is a link, files elsewhere would be removed."""
    RunFolder.create(tmp_path / "one", CONFIG)
    link = tmp_path / "one" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path)
    assert f"{link} is a link" in error_of(RunFolder(tmp_path / "one").check_parts)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in error_of(RunFolder.check_new, tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    assert "not writable" in error_of(RunFolder.check_new, tmp_path / "a" / "b")


def test_mistakes_when_opening(tmp_path):
    assert "no config.json" in error_of(RunFolder.open, tmp_path / "none")
    RunFolder.create(tmp_path / "runs" / "one", CONFIG)
    assert f"did you mean {tmp_path / 'runs' / 'one'}" in error_of(RunFolder.open, tmp_path / "runs")
    file = tmp_path / "runs" / "one" / "config.json"
    whole = file.read_text()
    for text, says in (
        (whole[:-20], "not readable"),
        ("[]", "no configuration"),
        ('{"format": 5, "sed": 1}', "nearest: "),
    ):
        file.write_text(text)
        message = error_of(RunFolder.open, file.parent)
        assert says in message and str(file) in message


def test_json_is_replaced_whole(tmp_path):
    run = RunFolder(tmp_path)
    run.write_json("sub/a.json", {"x": 1})
    run.write_json("sub/a.json", {"x": 2})
    with pytest.raises(TypeError):
        run.write_json("sub/a.json", {"x": object()})
    assert json.loads((tmp_path / "sub" / "a.json").read_text()) == {"x": 2}
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["a.json"]


def test_events_are_lines_with_the_time(tmp_path):
    run = RunFolder(tmp_path)
    run.event("one")
    run.event("two")
    lines = (tmp_path / "events.log").read_text().splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in lines] == ["one", "two"]


def test_two_runs_never_share_a_folder(tmp_path, monkeypatch):
    """Run folders have different names even if the runs begin in the same second, or simultaneously."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda pattern: "20260101-000000")
    paths = [RunFolder.new_path(CONFIG) for _ in range(3)]
    assert [p.name.removeprefix("a2c-pong-seed3-20260101-000000") for p in paths] == ["", "-2", "-3"]
    barrier, outcomes = threading.Barrier(4), []

    def begin() -> None:
        barrier.wait()
        try:
            outcomes.append(str(RunFolder.create(tmp_path / "one", CONFIG).path))
        except ConfigError as e:
            outcomes.append("refused" if "already holds a run" in str(e) else str(e))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted([str(tmp_path / "one"), *["refused"] * 3])


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def link(source, target):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    RunFolder.create(tmp_path / "one", CONFIG)
    assert RunFolder.open(tmp_path / "one")[1] == CONFIG
    assert not list((tmp_path / "one").glob(".config.json*"))


def test_default_path_is_one_folder():
    assert re.fullmatch(r"runs/a2c-pong-seed3-\d{8}-\d{6}", str(RunFolder.default_path(CONFIG)))
    own = replace(CONFIG, algorithm="mine:Algo", env=replace(CONFIG.env, game="", id="ns/module:make"))
    assert RunFolder.default_path(own).parts[1].startswith("mine_Algo-ns_module_make-seed3-")
    for games, name in (("pong, breakout", "pong_breakout"), (",".join(ATARI_57), "57_games")):
        several = replace(CONFIG, env=replace(CONFIG.env, game=games))
        assert RunFolder.default_path(several).parts[1].startswith(f"a2c-{name}-seed3-")


def test_versions():
    found = versions()
    assert found["torch"].startswith("2.") and found["ale-py"] and "git" in found
    json.dumps(found)


def test_a_users_class_that_is_missing_names_the_folder_of_the_run(tmp_path, monkeypatch):
    """Python searches a user's module in the current folder, which may differ from the folder in which the run
    started."""
    run = RunFolder.create(tmp_path / "run", default_config("ppo"))
    values = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**values, "algorithm": "no_such_module:Mine"}))
    (run.path / "launches.json").write_text(json.dumps([{"folder": "/where/it/began"}]))
    with pytest.raises(
        ConfigError, match=r"no module 'no_such_module' .*; the run was started in /where/it/began: "
    ) as e:
        RunFolder.open(run.path, trust=True)
    assert "\n" not in str(e.value)


def test_a_run_that_is_refused_late_leaves_no_folder(tmp_path, capsys, monkeypatch):
    """The run needs more shared memory than `ulimit -f` allows, so that only the allocation of the memory fails."""
    monkeypatch.chdir(tmp_path)  # In a Git repository, the run would save uncommitted changes.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, before[1]))
    try:
        assert main(["train", "a2c", "--game", "pong", "--run-dir", str(tmp_path / "run")]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (line,) = capsys.readouterr().err.splitlines()
    assert "MiB of shared memory cannot be allocated: File too large" in line and not list(tmp_path.iterdir())
