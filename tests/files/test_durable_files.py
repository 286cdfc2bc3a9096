import os

import pytest

from accel_rl.files import durable_files
from accel_rl.files.durable_files import open_in_place, place_new, remove_temporaries, write_durably, write_synced
from accel_rl.text.errors import ConfigError, ended


def test_bytes_are_synced_before_the_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
    file = tmp_path / "a.json"
    write_durably(file, b"1")
    write_durably(file, b"2")
    assert file.read_bytes() == b"2" and os.listdir(tmp_path) == ["a.json"]
    assert [name.partition(".json.")[0] for name in done] == [".a", tmp_path.name] * 2
    assert done[0] != done[2]  # random file names


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


@pytest.mark.parametrize("is_dangling", [True, False])
def test_nothing_is_written_through_a_link(tmp_path, is_dangling):
    thesis, file = tmp_path / "thesis", tmp_path / "file"
    if not is_dangling:
        thesis.write_text("mine")
    file.symlink_to(thesis)
    with pytest.raises(FileExistsError):
        write_synced(file, b"1")
    for flags in (os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with pytest.raises(ConfigError, match=f"{file} is a link .*; remove it"):
            open_in_place(file, flags)
    write_durably(file, b"1")
    assert file.read_bytes() == b"1" and not file.is_symlink()
    assert not thesis.exists() if is_dangling else thesis.read_text() == "mine"


def test_a_file_that_becomes_a_link_after_the_check_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "file").symlink_to(tmp_path / "thesis")
    monkeypatch.setattr(durable_files, "refuse_link", lambda file: None)
    with pytest.raises(OSError, match="symbolic links"):
        open_in_place(tmp_path / "file", os.O_RDWR)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "file")
    with pytest.raises(ConfigError, match="not a regular file"):
        open_in_place(tmp_path / "file", os.O_RDWR)


def test_the_temporary_files_of_killed_processes_are_removed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        # Let the temporary file remain, as after a kill of the process.
        patch.setattr(type(tmp_path), "unlink", lambda *_, **__: None)
        write_durably(tmp_path / "metrics.csv", b"1")
    (left,) = tmp_path.iterdir()
    names = {"notes.tmp", ".metrics.csv.tmp", f"d{left.name}"}
    for name in names:
        (tmp_path / name).write_text("mine")
    remove_temporaries(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == names
