"""The files of a sweep with --carry: limits of size, contents after a kill, and packing and unpacking of runs."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import accel_rl
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.emulator import translation
from accel_rl.files import code_cache
from accel_rl.sweeps import carried as module
from accel_rl.sweeps import carried_code, packed_run
from accel_rl.sweeps.carried import Carried, Item
from accel_rl.sweeps.packing import Packing, check_carried
from accel_rl.sweeps.sweep_folder import Record, SweepFolder
from accel_rl.text.errors import ConfigError
from tests.integration.runs import checkpoint_bytes, rows
from tests.sweeps.grids import cartpole

FILE, TOTAL = 20_000, 60_000


def opened(path: Path, total: int = TOTAL) -> Carried:
    result = Carried(path, total, FILE)
    result.open()
    return result


def contents(path: Path) -> dict[Item, bytes]:
    carried = Carried(path, TOTAL, FILE)
    return {item: carried.get(item) for item in carried.items}


def test_items_are_divided_among_files_below_the_limit(tmp_path):
    carried = opened(tmp_path / "out")
    items = {Item("a", 10): os.urandom(9_000), Item("b", 5, False): os.urandom(35_000), Item("c,x=1", 7): b"c"}
    for item, data in items.items():
        assert carried.put(item, data)
    files = sorted((tmp_path / "out").iterdir())
    assert [f.name for f in files] == ["carried-1.zip", "carried-2.zip", "carried-3.zip"]
    assert all(f.stat().st_size <= FILE for f in files)
    assert [f.stat().st_size for f in files] == carried.file_sizes
    assert contents(tmp_path / "out") == items
    assert not carried.put(Item("d", 1), os.urandom(20_000)) and contents(tmp_path / "out") == items
    assert carried.put(Item("d", 1), os.urandom(15_000))


def test_a_newer_item_replaces_the_older_and_evicted_ones(tmp_path):
    carried = opened(tmp_path / "out")
    carried.put(Item("a", 10, False), os.urandom(50_000))
    carried.put(Item("b", 10, False), b"b")
    assert carried.newest("a") == Item("a", 10, False)
    assert carried.put(Item("a", 20, False), data := os.urandom(55_000))
    assert contents(tmp_path / "out") == {Item("a", 20, False): data, Item("b", 10, False): b"b"}
    assert not carried.put(Item("c", 1), os.urandom(30_000))
    assert carried.put(Item("c", 1), b"c" * 30_000, [Item("a", 20, False)])
    assert set(contents(tmp_path / "out")) == {Item("b", 10, False), Item("c", 1)}
    assert all(f.stat().st_size <= FILE for f in (tmp_path / "out").iterdir())


@pytest.mark.parametrize("writes", range(8))
def test_a_kill_at_any_write_leaves_the_older_or_the_newer_item(writes, tmp_path, monkeypatch):
    """A process is killed while it replaces a packed item in the files of --carry, and another process reads these
    files."""
    before = {Item("a", 10, False): os.urandom(35_000), Item("b", 1): b"b" * 4_000}
    carried = opened(tmp_path / "out")
    for item, data in before.items():
        assert carried.put(item, data)
    durably, count = module.write_durably, 0

    def dying(file: Path, data: bytes) -> None:
        nonlocal count
        if count == writes:
            file.with_name(f".{file.name}.{'0' * 32}.tmp").write_bytes(data[: len(data) // 2])
            raise KeyboardInterrupt
        count += 1
        durably(file, data)

    monkeypatch.setattr(module, "write_durably", dying)
    newer, data = Item("a", 20, False), os.urandom(38_000)
    try:
        carried.put(newer, data)
    except KeyboardInterrupt:
        assert count == writes
    monkeypatch.undo()
    after = contents(tmp_path / "out")
    assert after[Item("b", 1)] == before[Item("b", 1)]
    assert after.get(newer) == data or after[Item("a", 10, False)] == before[Item("a", 10, False)]
    again = opened(tmp_path / "out")
    assert not list((tmp_path / "out").glob(".*"))
    assert again.put(newer, data) and contents(tmp_path / "out") == {newer: data, Item("b", 1): b"b" * 4_000}
    assert all(f.stat().st_size <= FILE for f in (tmp_path / "out").iterdir())


def test_a_damaged_file_is_ignored_and_kept(tmp_path):
    carried = opened(tmp_path)
    carried.put(Item("a", 1), b"a" * 15_000)
    carried.put(Item("b", 1), b"b" * 15_000)
    file = tmp_path / "carried-1.zip"
    file.write_bytes(damaged := file.read_bytes()[:-30])
    again = opened(tmp_path)
    assert again.items == [Item("b", 1)]
    assert again.put(Item("c", 1), b"c" * 15_000)
    assert file.read_bytes() == damaged and set(contents(tmp_path)) == {Item("b", 1), Item("c", 1)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a run of 800 env steps."""
    folder = tmp_path_factory.mktemp("carried") / "run"
    config = cartpole()
    evaluation = replace(config.evaluation, interval=400, episodes=2, parallel=2)
    accel_rl.train(replace(config, env_steps=800, evaluation=evaluation), run_dir=folder)
    return folder


def fresh(path: Path, run: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_bytes((run / "config.json").read_bytes())
    return path


def test_a_finished_run_is_packed_with_its_network_in_half_precision(trained, tmp_path):
    data = packed_run.pack(trained, is_finished=True)
    run = fresh(tmp_path / "sweep" / "run", trained)
    packed_run.unpack(data, run)
    assert rows(run) == rows(trained)
    for name in ("launches.json", "protocol.json", "evaluations/000000000800.json"):
        assert (run / name).read_bytes() == (trained / name).read_bytes()
    network = checkpoint.load(Checkpoints(trained / "checkpoints").path(800))["learner"]["network"]
    loaded = ModelFolder(run).load()
    assert loaded["env_steps"] == 800 and loaded["evaluation"]["env_steps"] == 800
    assert loaded["learner"]["network"].keys() == network.keys()
    for name, x in network.items():
        assert torch.equal(loaded["learner"]["network"][name], x.half().float() if x.is_floating_point() else x)
    assert not (run / "checkpoints").exists() and not (run / packed_run.SCRATCH).exists()
    assert SweepFolder(run.parent).saved_at("run") == 800 and SweepFolder(run.parent).finished("run", 800)
    assert not SweepFolder(run.parent).finished("run", 801)
    # A finished run that was unpacked has no checkpoints, and can be packed again.
    assert packed_run.pack(run, is_finished=True)
    assert accel_rl.Run(run).evaluate(episodes=1, parallel=1)


def test_an_unfinished_run_is_packed_with_its_newest_checkpoint(trained, tmp_path):
    run = fresh(tmp_path / "run", trained)
    packed_run.unpack(packed_run.pack(trained, is_finished=False), run)
    assert Checkpoints(run / "checkpoints").steps() == [800]
    assert checkpoint_bytes(run) == checkpoint_bytes(trained)
    packed_run.unpack(packed_run.pack(trained, is_finished=True), run)
    assert not (run / "checkpoints").exists() and ModelFolder(run).is_there


@pytest.mark.parametrize("moves", range(0, 9, 2))
def test_an_interrupted_unpacking_is_repeated(moves, trained, tmp_path, monkeypatch):
    """If the process is killed while it moves files, the run does not count as finished, and the next `unpack`
    completes it."""
    folder, data = SweepFolder(tmp_path), packed_run.pack(trained, is_finished=True)
    run, move, count = fresh(tmp_path / "run", trained), os.replace, 0

    def dying(*paths: Path) -> None:
        nonlocal count
        if count == moves:
            raise KeyboardInterrupt
        count += 1
        move(*paths)

    monkeypatch.setattr(packed_run.os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        packed_run.unpack(data, run)
    monkeypatch.undo()
    assert folder.saved_at("run") == 0 and not folder.finished("run", 800)
    packed_run.unpack(data, run)
    assert folder.finished("run", 800) and rows(run) == rows(trained)


def test_a_run_with_other_settings_is_refused(trained, tmp_path):
    carried = opened(tmp_path, 200_000)
    carried.put(Item("run", 800), packed_run.pack(trained, is_finished=True))
    settings = json.loads((trained / "config.json").read_text())
    check_carried(carried, {"run": {**settings, "run_dir": "elsewhere"}, "other": settings})
    with pytest.raises(ConfigError, match=r"run run in --carry .* has seed 0, and this sweep's run has 5: choose"):
        check_carried(carried, {"run": {**settings, "seed": 5}})
    with pytest.raises(ConfigError, match=r"has algo\.gamma 0\.99, and"):
        check_carried(carried, {"run": {**settings, "algo": {**settings["algo"], "gamma": 0.5}}})


def test_finished_runs_take_the_room_of_checkpoints_and_the_rest_is_named(trained, tmp_path):
    """If space is short, checkpoints of the runs that come last in the grid are removed first."""
    folder = SweepFolder(tmp_path / "sweep")
    names = ["first", "second", "third", "fourth"]
    for name in names:
        packed_run.unpack(packed_run.pack(trained, is_finished=False), fresh(folder.run(name), trained))
    folder.write("sweep.json", {"runs": {name: {} for name in names}})
    folder.records = {name: Record("stopped") for name in names}
    size = len(packed_run.pack(trained, is_finished=False))
    most = int(2.5 * size)
    packing = Packing(folder, carried := Carried(tmp_path / "out", most, most))
    carried.open()
    lines = packing.end(until=float("inf"))
    assert "0 finished runs and 2 checkpoints in 1 file" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == ["  third is not packed", "  fourth is not packed"]
    folder.records["fourth"] = Record("done")
    small = len(packed_run.pack(trained, is_finished=True))
    packing = Packing(folder, carried := Carried(tmp_path / "out", 2 * size + small // 2, 2 * size + small // 2))
    lines = packing.end(until=float("inf"))
    assert carried.newest("fourth") == Item("fourth", 800) and carried.newest("first") == Item("first", 800, False)
    assert carried.newest("second") is None and any("second is not packed: " in line for line in lines)


def test_compiled_code_is_read_only_from_files_that_others_cannot_write(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name in ("rom-pong-1.so", "emulator-sm_90-2", "../rom-outside", "other"):
            z.writestr(name, b"code")
    opened(tmp_path / "out").put(Item(carried_code.NAME, 1), buffer.getvalue())
    cache, file = tmp_path / "cache" / "accel_rl", tmp_path / "out" / "carried-1.zip"
    file.chmod(0o664)
    assert "other users can write it" in carried_code.carry_in(Carried(tmp_path / "out", TOTAL, FILE))
    assert not cache.exists()
    file.chmod(0o644)
    (tmp_path / "out").chmod(0o777)
    assert "other users can write it" in carried_code.carry_in(Carried(tmp_path / "out", TOTAL, FILE))
    (tmp_path / "out").chmod(0o755)
    carried = Carried(tmp_path / "out", TOTAL, FILE)
    assert carried_code.carry_in(carried) == f"2 files of compiled code from {tmp_path}/out"
    assert carried_code.carry_in(carried) == ""
    assert sorted(f.name for f in cache.iterdir()) == ["emulator-sm_90-2", "rom-pong-1.so"]
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in cache.iterdir())


def test_a_translated_game_is_carried_to_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.delenv(translation.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    file = translation.translation_file("pong")
    file.parent.mkdir(parents=True)
    library = b"not a library"  # The file need not be a library: only its digest and owner are checked.
    file.write_bytes(library + hashlib.sha256(library).digest())
    file.chmod(0o600)
    carried = opened(tmp_path / "out")
    files = carried_code.files_of(["pong", "breakout", "pong"], carried)
    assert files == [file] and carried_code.item_of(files) != carried_code.item_of([])
    carried.put(Item(carried_code.NAME, 1), packed_run.zipped({"rom-other": file, "rom-absent": file}))
    other = file.with_name("rom-other")
    other.write_bytes(b"of another compiler" + hashlib.sha256(b"of another compiler").digest())
    assert carried_code.files_of(["pong"], carried) == [file, other]
    data = carried_code.pack(files)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    file = translation.translation_file("pong")
    assert code_cache.read(file) is None
    assert carried_code.unpack(data) == 1 and carried_code.unpack(data) == 0
    assert code_cache.read(file) == library


def test_compiled_code_of_a_shared_cache_is_neither_packed_nor_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = tmp_path / "cache" / "accel_rl"
    code_cache.write(cache / "emulator-sm_90-1", b"code")
    carried = opened(tmp_path / "out")
    assert carried_code.files_of([], carried) == [cache / "emulator-sm_90-1"]
    carried.put(Item(carried_code.NAME, 1), carried_code.pack([cache / "emulator-sm_90-1"]))
    cache.chmod(0o777)
    assert carried_code.files_of([], carried) == []
    (cache / "emulator-sm_90-1").unlink()
    assert "set XDG_CACHE_HOME" in carried_code.carry_in(carried) and list(cache.iterdir()) == []


def test_links_are_neither_packed_nor_followed(tmp_path):
    (tmp_path / "id_rsa").write_text("PRIVATE KEY")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    data = packed_run.pack(run, is_finished=True)
    (run / "protocol.json").symlink_to(tmp_path / "id_rsa")
    with pytest.raises(ConfigError, match=r"protocol\.json is a link"):
        packed_run.pack(run, is_finished=True)
    (tmp_path / "outside").mkdir()
    (run / packed_run.SCRATCH).symlink_to(tmp_path / "outside")
    with pytest.raises(ConfigError, match="is a link"):
        packed_run.unpack(data, run)
    assert list((tmp_path / "outside").iterdir()) == []


def test_runs_of_a_grid_are_named_after_their_settings_in_the_archive(tmp_path):
    """Names with "@" or "-unfinished", which separate the parts of file names, are read back correctly."""
    carried = opened(tmp_path)
    items = [Item("game@2,seed=0-unfinished", 3), Item("x.1of2", 4, False)]
    for item in items:
        carried.put(item, item.name.encode())
    assert contents(tmp_path) == {item: item.name.encode() for item in items}
