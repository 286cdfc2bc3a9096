import json
import os
import shutil

import pytest
import torch

from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.text.errors import ConfigError, RunError


def state(n: int) -> dict:
    return {"env_steps": n, "weights": torch.arange(50.0) + n, "emulator": bytes(range(40)), "none": None}


def same(a: dict, n: int) -> bool:
    b = state(n)
    return torch.equal(a.pop("weights"), b.pop("weights")) and a == b


@pytest.fixture
def three(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for n in (10, 20, 30):
        checkpoints.save(n, state(n))
    return checkpoints


def error_of(call, *args) -> str:
    with pytest.raises(ConfigError) as e:
        call(*args)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_none_yet(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.clean()
    assert checkpoints.steps() == [] and checkpoints.load_latest() is None


def test_the_newest_is_loaded(three):
    steps, got = three.load_latest()
    assert steps == 30 and same(got, 30)
    assert same(load(three.path(10)), 10)
    files = {p.name for p in three.path(30).iterdir()}
    assert files == {"MANIFEST.json", "state.json", "state.safetensors"}
    manifest = json.loads((three.path(30) / "MANIFEST.json").read_text())
    assert manifest["env_steps"] == 30


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_only_the_newest_are_kept(tmp_path, keep):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep)
    for n in (5, 90, 1000, 20000):
        checkpoints.save(n, state(n))
    want = [5, 90, 1000, 20000][-keep:]
    assert checkpoints.steps() == want
    assert sorted(p.name for p in checkpoints.folder.iterdir()) == [f"{n:012d}" for n in want]


def test_the_same_step_again_replaces(three):
    changed = state(30) | {"none": "new"}
    three.save(30, changed)
    assert three.steps() == [10, 20, 30] and three.load_latest()[1]["none"] == "new"


def test_what_an_interrupted_write_left_is_ignored_and_cleaned(three):
    for name in (".writing-123-40", f".writing-{os.getpid()}-50"):
        left = three.folder / name
        shutil.copytree(three.path(20), left)
        (left / "state.safetensors").write_bytes(b"half")
    assert three.steps() == [10, 20, 30] and three.load_latest()[0] == 30
    three.save(50, state(50))  # save() replaces an unfinished checkpoint of the same process.
    assert same(three.load_latest()[1], 50)
    three.clean()
    assert sorted(p.name for p in three.folder.iterdir()) == [f"{n:012d}" for n in (20, 30, 50)]


@pytest.mark.parametrize("file", ["state.json", "state.safetensors", "MANIFEST.json", "rename"])
def test_a_full_disk_leaves_the_earlier_ones_whole(three, monkeypatch, file):
    def full(*_):
        raise OSError(28, "No space left on device")

    real = checkpoint.write_synced

    def write(path, data):
        if path.name == file:
            path.write_bytes(data[: len(data) // 2])
            full()
        real(path, data)

    monkeypatch.setattr(checkpoint, "write_synced", write)
    if file == "rename":
        monkeypatch.setattr(os, "rename", full)
    with pytest.raises(RunError, match="No space left on device") as e:
        three.save(40, state(40))
    assert "\n" not in str(e.value)
    assert sorted(p.name for p in three.folder.iterdir()) == [f"{n:012d}" for n in (10, 20, 30)]
    assert same(three.load_latest()[1], 30)


@pytest.mark.parametrize("call", ["rename", "rmtree"])
def test_an_old_one_that_cannot_be_removed_is_removed_later(three, monkeypatch, warned, call):
    """A run continues although an old checkpoint cannot be deleted.

    The old checkpoint is deleted when the next checkpoint has been saved.
    """
    module, real = (os, os.rename) if call == "rename" else (shutil, shutil.rmtree)

    def fails(path, *args, **kwargs):
        if "000000000010" in str(path):
            if kwargs.get("ignore_errors"):
                return
            raise OSError(5, "Input/output error")
        real(path, *args, **kwargs)

    with monkeypatch.context() as m:
        m.setattr(module, call, fails)
        three.save(40, state(40))
    assert same(three.load_latest()[1], 40)
    assert [line for line in warned if "could not be removed: Input/output error" in line] or call == "rmtree"
    three.save(50, state(50))
    assert sorted(p.name for p in three.folder.iterdir()) == [f"{n:012d}" for n in (30, 40, 50)]


@pytest.mark.parametrize(("name", "each"), [("state.json", 7), ("state.safetensors", 7), ("MANIFEST.json", 1)])
def test_any_flipped_bit_is_found(three, name, each):
    file = three.path(30) / name
    whole = file.read_bytes()
    for at in range(0, len(whole), each):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        if name == "MANIFEST.json":  # A flipped bit in the white space of a JSON file need not change its values.
            if json.loads(whole) == _json(file):
                continue
            assert str(three.path(30)) in error_of(three.load_latest)
            continue
        message = error_of(three.load_latest)
        assert "is damaged" in message and str(file) in message
        assert message.endswith(f"delete it to go on from {three.path(20)}")
    file.write_bytes(whole)
    assert same(three.load_latest()[1], 30)


def _json(file):
    try:
        return json.loads(file.read_bytes())
    except ValueError:
        return None


def test_a_run_that_goes_back_keeps_its_new_checkpoint_and_the_later_ones(three):
    assert three.set_aside(10) == [20, 30] and three.steps() == [10]
    assert same(load(three.folder.parent / "abandoned-1" / "000000000030"), 30)
    three.save(20, state(20))
    assert three.set_aside(10) == [20] and same(load(three.folder.parent / "abandoned-2" / "000000000020"), 20)
    assert three.set_aside(10) == []


def test_a_save_never_removes_its_own_checkpoint(three):
    three.keep = 2
    assert three.save(5, state(5)).is_dir()
    assert three.steps() == [5, 20, 30] and same(load(three.path(5)), 5)


def test_folders_of_others_are_no_checkpoints(three):
    for name in ("2", "\N{SUPERSCRIPT TWO}", "000000000040x", "\N{ARABIC-INDIC DIGIT TWO}" * 12):
        (three.folder / name).mkdir()
    assert three.steps() == [10, 20, 30]
    (three.folder / ".writing-mine").mkdir()
    three.clean()
    assert len(list(three.folder.iterdir())) == 8


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "MANIFEST.json"])
def test_a_truncated_or_missing_file_is_found(three, name):
    file = three.path(30) / name
    whole = file.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert str(three.path(20)) in error_of(three.load_latest)
    file.unlink()
    assert str(three.path(20)) in error_of(three.load_latest)


@pytest.mark.parametrize(
    "manifest",
    [
        {"format": "someone else's"},
        {"format": "accel_rl checkpoint 1", "sha256": {}},
        {"format": checkpoint.FORMAT},
        {"format": checkpoint.FORMAT, "sha256": {}},
        {"format": checkpoint.FORMAT, "sha256": None},
        [],
        None,
        3,
    ],
)
def test_a_foreign_manifest_is_refused(three, manifest):
    (three.path(30) / "MANIFEST.json").write_text(json.dumps(manifest))
    assert str(three.path(30)) in error_of(load, three.path(30))


def test_no_checkpoint_at_all(tmp_path):
    assert "no readable checkpoint" in error_of(load, tmp_path)
    assert "no readable checkpoint" in error_of(load, tmp_path / "none")


def test_the_last_one_has_no_other_to_offer(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", 1)
    path = checkpoints.save(10, state(10))
    (path / "state.json").write_text("{}")
    assert "delete it" not in error_of(checkpoints.load_latest)
