"""Segments of a replay's state are written once, shared by checkpoints, verified, and deleted with their last
checkpoint."""

import json
import shutil

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.checkpoints.tensor_file import Segment
from accel_rl.text.errors import ConfigError


def segment(name: str, value: float, calls: list | None = None) -> Segment:
    def tensors():
        if calls is not None:
            calls.append(name)
        return {"x": torch.full((5,), value), "none": torch.zeros(0, 3, dtype=torch.uint8)}

    return Segment(name, tensors)


def files(tmp_path) -> set[str]:
    return {p.name.rsplit("-", 1)[0] for p in (tmp_path / "segments").iterdir()}


def test_a_segment_is_written_once_and_read_back(tmp_path):
    checkpoints, calls = Checkpoints(tmp_path / "checkpoints"), []
    checkpoints.save(1, {"past": [segment("a", 1.0, calls)]})
    checkpoints.save(2, {"past": [segment("a", 1.0, calls), segment("b", 2.0, calls)]})
    assert calls == ["a", "b"]
    _, state = checkpoints.load_latest()
    assert [s.name for s in state["past"]] == ["a", "b"]
    assert torch.equal(state["past"][1].load()["x"], torch.full((5,), 2.0))
    assert state["past"][0].load()["none"].shape == (0, 3)
    Checkpoints(tmp_path / "checkpoints").save(3, {"past": [*state["past"], segment("c", 3.0)]})  # after a resume
    assert files(tmp_path) == {"a", "b", "c"}


def test_segments_that_no_checkpoint_holds_go(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    for i in range(5):
        checkpoints.save(i, {"past": [segment(f"s{j}", j) for j in range(i, i + 2)]})
    assert files(tmp_path) == {"s3", "s4", "s5"}
    (tmp_path / "segments" / ".writing-1-s9-0123456789abcdef.safetensors").write_bytes(b"half")
    Checkpoints(tmp_path / "checkpoints").clean()
    assert len(list((tmp_path / "segments").iterdir())) == 3


def test_two_continuations_of_one_run_do_not_take_each_others_segments(tmp_path):
    Checkpoints(tmp_path / "checkpoints").save(1, {"past": [segment("a", 1.0)]})
    Checkpoints(tmp_path / "checkpoints").save(2, {"past": [segment("a", 9.0)]})
    values = [float(load(tmp_path / "checkpoints" / f"{i:012d}")["past"][0].load()["x"][0]) for i in (1, 2)]
    assert values == [1.0, 9.0]


@pytest.mark.parametrize("damage", ["flip", "gone"])
def test_a_damaged_segment_is_named(tmp_path, damage):
    Checkpoints(tmp_path / "checkpoints").save(1, {"past": [segment("a", 1.0)]})
    (file,) = (tmp_path / "segments").iterdir()
    if damage == "gone":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    _, state = Checkpoints(tmp_path / "checkpoints").load_latest()
    with pytest.raises(ConfigError, match=file.name.split("-")[0]):
        state["past"][0].load()


def test_a_manifest_that_cannot_be_read_throws_nothing_away(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for i in (1, 2):
        checkpoints.save(i, {"past": [segment(f"s{i}", i)]})
    manifest = checkpoints.path(1) / "MANIFEST.json"
    assert json.loads(manifest.read_text())["segments"]
    manifest.write_text("{")
    checkpoints.clean()
    assert files(tmp_path) == {"s1", "s2"}


def test_one_flipped_bit_in_a_manifest_throws_nothing_away(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(1, {"past": [segment("rows", 1)]})
    manifest = checkpoints.path(1) / "MANIFEST.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows-', b'"sows-'))
    with pytest.raises(ConfigError, match="damaged"):
        checkpoints.load_latest()
    checkpoints.clean()
    assert files(tmp_path) == {"rows"}


def test_the_segments_of_abandoned_checkpoints_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    for i in (1, 2):
        checkpoints.save(i, {"past": [segment(f"s{i}", i)]})
    checkpoints.set_aside(1)
    checkpoints.save(3, {"past": [segment("s3", 3)]})
    assert files(tmp_path) == {"s2", "s3"}
    past = load(tmp_path / "abandoned-1" / f"{2:012d}")["past"]
    assert float(past[0].load()["x"][0]) == 2.0


def test_files_that_are_not_the_runs_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(1, {"past": [segment("a", 1)]})
    folder, others = tmp_path / "segments", tmp_path / "others"
    others.mkdir()
    name = "a-0123456789abcdef.safetensors"
    for file in (folder / "notes.txt", folder / "weights.safetensors", others / name):
        file.write_text("mine")
    (folder / f"b-{name}").symlink_to(others / name)
    (folder / f"c-{name}").mkdir()
    (folder / f"d-{name}").write_text("a segment that no checkpoint names")
    checkpoints.clean()
    kept = {p.name for p in folder.iterdir() if not p.name.startswith("a-")}
    assert kept == {"notes.txt", "weights.safetensors", f"b-{name}", f"c-{name}"}
    shutil.rmtree(folder)
    folder.symlink_to(others)
    checkpoints.clean()
    assert (others / name).read_text() == "mine"
