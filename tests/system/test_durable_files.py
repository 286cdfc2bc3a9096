import os

import pytest

from accel_rl.system import durable_files
from accel_rl.system.durable_files import place_new, write_durably
from accel_rl.system.errors import ended


def test_bytes_are_synced_before_the_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
    file = tmp_path / "a.json"
    write_durably(file, b"1")
    write_durably(file, b"2")
    assert file.read_bytes() == b"2" and os.listdir(tmp_path) == ["a.json"]
    assert done == [".a.json.tmp", tmp_path.name] * 2


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    def full(path, data):
        path.write_bytes(data[:1])
        raise OSError(28, "No space left on device")

    file = tmp_path / "a.json"
    write_durably(file, b"old")
    monkeypatch.setattr(durable_files, "write_synced", full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(file, b"new")
    assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_is_placed_once(tmp_path, monkeypatch, has_links):
    def link(*_):
        raise OSError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
    place_new(tmp_path / "a", tmp_path / "file")
    with pytest.raises(FileExistsError):
        place_new(tmp_path / "b", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"a"


def test_a_folder_in_the_place_of_a_file_is_named_in_one_line(tmp_path, capfd):
    (tmp_path / "protocol.json").mkdir()
    assert ended("accel-rl", lambda _: write_durably(tmp_path / "protocol.json", b"{}"), []) == 1
    assert capfd.readouterr().err == f"accel-rl: Is a directory: {tmp_path / 'protocol.json'}\n"
    assert [p.name for p in tmp_path.iterdir()] == ["protocol.json"]
