"""Translated games against the plain core, and the cache of translations."""

import _ctypes
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator, VectorEnv, translation
from accel_rl.emulator.games import read_rom
from accel_rl.text.errors import ConfigError
from tests.integration.runs import wait_for

pytestmark = pytest.mark.skipif(translation.compiler() is None, reason="no C++ compiler")

# 4K, and with other cartridges or code: 2K, F8, F6, E0, FE, code in RAM, DPC
KINDS = ["boxing", "seaquest", "solaris", "montezuma_revenge", "robotank", "up_n_down", "pitfall2"]


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache folder with the translation of Pong, which an emulator of an earlier test plays."""
    folder = tmp_path_factory.mktemp("cache")
    earlier = AtariEmulator("pong")._emulator
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.delenv(translation.VARIABLE, raising=False)
        assert translation.translate("pong")
        assert translation._insert(earlier, translation.translation_file("pong"))
    yield folder
    earlier.insert_translation(0)


@pytest.fixture
def cache(cached, tmp_path, monkeypatch):
    """The file of Pong's translation, in a copy of the cache folder."""
    shutil.copytree(cached, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(translation.VARIABLE, raising=False)
    translation._begun.clear()
    AtariEmulator("pong")._emulator.insert_translation(0)  # All emulators of a game share one translation.
    return translation.translation_file("pong")


def assert_same_frames(plain: AtariEmulator, fast: AtariEmulator, frames: int) -> None:
    rng = np.random.default_rng(0)
    for t in range(frames):
        action = int(rng.integers(18))
        assert plain.act(action) == fast.act(action), t
        assert (plain.ram() == fast.ram()).all() and (plain.screen() == fast.screen()).all(), t
        if t % 100 == 99:
            state = fast.save()
            fast.restore(plain.save())
            plain.restore(state)
        if t == frames // 2:
            plain.reset()
            fast.reset()


def assert_exact(rom: bytes, game: str, folder) -> None:
    plain, fast = (AtariEmulator(game, 1, 0.25, rom=rom, fast=fast) for fast in (False, True))
    translation.compile_rom(AtariEmulator(game, rom=rom)._emulator, folder / f"{game}.so")
    assert translation._insert(fast._emulator, folder / f"{game}.so") and fast._emulator.is_translated
    assert_same_frames(plain, fast, 300)


def test_a_translated_game_plays_the_same_frames(cache):
    plain, fast = (AtariEmulator("pong", seed=1, sticky=0.25, fast=fast) for fast in (False, True))
    translation.begin(fast._emulator, "pong")
    assert fast._emulator.is_translated
    assert_same_frames(plain, fast, 300)


@pytest.mark.slow
@pytest.mark.parametrize("game", KINDS)
def test_each_kind_of_cartridge_is_translated(game, tmp_path):
    assert_exact(read_rom(game), game, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_roms_are_translated(seed, tmp_path):
    """Wrong bytes in the code: other paths, jumps to data and code outside the ROM."""
    rng = np.random.default_rng(seed)
    game = ("breakout", "seaquest", "solaris", "robotank")[seed]
    rom = bytearray(read_rom(game))
    for _ in range(4):
        rom[rng.integers(len(rom))] = rng.integers(256)
    assert_exact(bytes(rom), game, tmp_path)


def test_environments_use_a_cached_translation_at_once(cache):
    with_translation, without = (VectorEnv("pong", 2, translate=translate) for translate in (True, False))
    assert with_translation._games[0].is_translated
    for env in (with_translation, without):
        env.close()


def test_a_game_is_interpreted_until_it_is_compiled(cache, monkeypatch):
    complete = cache.read_bytes()
    cache.unlink()
    compiled = []

    def run_compiler(file, game, rom):
        compiled.append(game)
        time.sleep(0.2)
        file.write_bytes(complete)
        file.chmod(0o600)

    monkeypatch.setattr(translation, "_run_compiler", run_compiler)
    envs = [VectorEnv("pong", 1), VectorEnv("pong", 1)]
    assert not envs[0]._games[0].is_translated
    deadline = time.monotonic() + 20
    while not all(env._games[0].is_translated for env in envs) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert compiled == ["pong"] and all(env._games[0].is_translated for env in envs)
    for env in envs:
        env.close()


@pytest.mark.parametrize("change", ["cut", "flipped", "writable", "missing"])
def test_only_a_complete_file_of_this_user_is_loaded(cache, change):
    content = cache.read_bytes()
    if change == "cut":
        cache.write_bytes(content[:-100])
    elif change == "flipped":
        cache.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif change == "writable":
        cache.chmod(0o666)
    else:
        cache.unlink()
    emulator = AtariEmulator("pong")._emulator
    assert not translation._insert(emulator, cache) and not emulator.is_translated


def test_a_library_of_something_else_is_not_loaded(cache):
    content = Path(_ctypes.__file__).read_bytes()
    cache.write_bytes(content + hashlib.sha256(content).digest())
    emulator = AtariEmulator("pong")._emulator
    assert not translation._insert(emulator, cache) and not emulator.is_translated


def test_games_are_interpreted_when_switched_off_or_without_a_compiler(cache, monkeypatch):
    monkeypatch.setenv(translation.VARIABLE, "off")
    assert translation.translation_file("pong") is None and not translation.translate("pong")
    assert translation.how_played("pong") == ""
    monkeypatch.delenv(translation.VARIABLE)
    monkeypatch.setattr(translation, "compiler", lambda: None)
    assert translation.translation_file("pong") is None and not translation.translate("pong")
    assert "no C++ compiler" in translation.how_played("pong")


def test_the_start_of_a_run_says_how_the_game_is_played(cache, capfd, tmp_path, monkeypatch):
    from accel_rl import train

    assert translation.how_played("pong") == "pong is translated"
    monkeypatch.setattr(translation, "_run_compiler", lambda *_: None)
    cache.unlink()
    small = {"env_steps": 16, "envs": 2, "horizon": 8, "network": "a3c", "evaluation__interval": 0}
    train("ppo", game="pong", engine="in-process", decorrelation_steps=0, run_dir=str(tmp_path / "run"), **small)
    assert "pong is interpreted until it is translated\n" in capfd.readouterr().out


def test_the_file_depends_on_rom_and_compiler(cache, tmp_path, monkeypatch):
    other = tmp_path / "other.bin"
    other.write_bytes(read_rom("pong")[:-1] + b"\0")
    files = {cache, translation.translation_file("pong", other), translation.translation_file("breakout")}
    monkeypatch.setattr(translation, "compiler", lambda: ("g++", "another version"))
    files.add(translation.translation_file("pong"))
    assert len(files) == 4


def test_a_compiler_that_fails_is_one_line(cache, monkeypatch, capfd):
    cache.unlink()
    broken = cache.parent / "broken"
    broken.write_text(
        '#!/bin/sh\ntest "$1" = --version && echo broken 1 && exit 0\necho does not compile >&2; exit 1\n'
    )
    broken.chmod(0o755)
    environment = {**os.environ, "CXX": str(broken)}
    code = "from accel_rl.emulator.translation import translate; print(translate('pong'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n" and done.returncode == 0
    assert (
        "pong cannot be translated" in done.stderr
        and "does not compile" in done.stderr
        and "Traceback" not in done.stderr
    )


@pytest.mark.parametrize(
    "writes", ["echo garbage", *(pytest.param(w, marks=pytest.mark.slow) for w in ("true", "cp $LIBRARY"))]
)
def test_what_a_compiler_writes_is_loaded_before_it_is_stored(cache, tmp_path, writes):
    """A compiler may end without an error, and write something that is no library, nothing, or another library."""
    cache.unlink()
    broken = tmp_path / "broken"
    target = '"$out"' if writes.startswith("cp") else '> "$out"'
    broken.write_text(
        '#!/bin/sh\ntest "$1" = --version && echo broken 1 && exit 0\nfor word; do out="$word"; done\n'
        f"echo call >> {tmp_path}/calls\n{writes} {target}\n"
    )
    broken.chmod(0o755)
    environment = {**os.environ, "CXX": str(broken), "LIBRARY": _ctypes.__file__}
    code = "from accel_rl.emulator.translation import translate; print(translate('pong'), translate('pong'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False False\n" and done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("pong cannot be translated") == 2
    assert (tmp_path / "calls").read_text().count("call") == 2 and list(cache.parent.glob("*.so")) == []


def test_a_stored_library_that_cannot_be_loaded_is_compiled_again(cache, monkeypatch):
    complete = cache.read_bytes()
    cache.write_bytes(b"garbage" + hashlib.sha256(b"garbage").digest())

    def run_compiler(file, game, rom):
        file.write_bytes(complete)

    monkeypatch.setattr(translation, "_run_compiler", run_compiler)
    emulator = AtariEmulator("pong")._emulator
    translation.begin(emulator, "pong")
    wait_for(lambda: emulator.is_translated, 20)


def test_a_library_that_is_exchanged_after_the_check_is_not_loaded(cache, tmp_path, monkeypatch):
    read = translation.code_cache.read

    def reading(file):
        content = read(file)
        file.write_bytes(b"evil")
        return content

    monkeypatch.setattr(translation.code_cache, "read", reading)
    emulator = AtariEmulator("pong")._emulator
    assert translation._insert(emulator, cache) and emulator.is_translated


def test_a_shared_cache_folder_is_not_used(cache, monkeypatch, caplog):
    monkeypatch.setattr(translation, "_run_compiler", lambda *_: pytest.fail("compiled"))
    cache.parent.chmod(0o770)
    emulator = AtariEmulator("pong")._emulator
    assert not translation._insert(emulator, cache) and not emulator.is_translated
    line = translation.how_played("pong")
    assert line.startswith(f"pong is interpreted, because the folder {cache.parent} can be written by others")
    with caplog.at_level("INFO"):
        translation._compile(emulator, cache, "pong", None)
    assert "set XDG_CACHE_HOME" in caplog.text and not emulator.is_translated


def test_a_lock_file_is_neither_followed_nor_emptied(tmp_path):
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "a.lock").symlink_to(tmp_path / "thesis")
    (tmp_path / "b.lock").write_text("mine")
    with (
        pytest.raises(ConfigError, match=r"a\.lock is a link"),
        translation._held([tmp_path / "a.lock"], time.monotonic() + 1),
    ):
        pass
    with translation._held([tmp_path / "b.lock"], time.monotonic() + 1):
        pass
    assert (tmp_path / "thesis").read_text() == (tmp_path / "b.lock").read_text() == "mine"


def test_a_few_compilers_run_at_once(tmp_path):
    """A second one waits for the first, and gives up at its deadline."""
    files = translation._turns(tmp_path)[:1]
    held = lambda seconds: translation._held(files, time.monotonic() + seconds)  # noqa: E731
    with held(5), pytest.raises(TimeoutError, match="other compilers"), held(0.1):
        pass
    with held(5):
        pass


def test_a_compiler_ends_with_its_run(tmp_path):
    """The compiler starts processes of its own, which end when the run is killed."""
    lines = [
        "import sys, time",
        "from accel_rl.emulator import AtariEmulator, translation",
        "translation.begin(AtariEmulator('pong')._emulator, 'pong')",
        "time.sleep(60)",
    ]
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    variables.pop(translation.VARIABLE, None)
    run = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], env=variables)

    def compilers():
        running = []
        for p in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                running += [p] if p.environ().get("XDG_CACHE_HOME") == str(tmp_path) and p.pid != run.pid else []
        return running

    wait_for(lambda: any("cc1plus" in p.name() for p in compilers()) or list(tmp_path.rglob("rom-pong-*.so")))
    run.kill()
    run.wait()
    wait_for(lambda: not compilers(), 10, "their ends")


def test_headers_that_have_changed_since_the_compilation_are_not_compiled(tmp_path):
    """A pull into a clone changes the layout of the console, and the extension is not compiled again: a translation of
    the new headers would write beside the old console's members."""
    shutil.copytree(Path(translation.__file__).parents[1], tmp_path / "accel_rl")
    header = tmp_path / "accel_rl/emulator/core/fast/console.h"
    text = header.read_text()
    assert text.count("    const u32* ops;") == 1
    header.write_text(text.replace("    const u32* ops;", "    u32 planted[64];\n    const u32* ops;"))
    program = (
        "import numpy as np, accel_rl.emulator as e\n"
        "from accel_rl.emulator import translation\n"
        "print(translation.translate('pong'), translation.how_played('pong'))\n"
        "envs = e.VectorEnv('pong', 1)\n"
        "envs.reset(seed=1)\n"
        "print(envs.step(np.zeros(1, int))[0].shape)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop(translation.VARIABLE, None)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False pong is interpreted, because the emulator was compiled from other sources")
    assert "(1, 4, 84, 84)" in done.stdout and not list(tmp_path.glob("cache/**/*.so"))


def test_a_translation_for_another_layout_is_not_loaded(cache, monkeypatch, caplog):
    caplog.set_level("INFO")
    emulator = AtariEmulator("pong")._emulator
    monkeypatch.setattr(translation, "core", lambda: type("Core", (), {"LAYOUT": 0}))
    assert not translation._insert(emulator, cache) and not emulator.is_translated
    assert "compiled for another layout of the console" in caplog.text


@pytest.mark.parametrize(("value", "off"), [("off", True), ("0", True), ("No", True), ("FALSE", True), ("on", False)])
def test_the_variable_has_the_usual_words(value, off, monkeypatch):
    monkeypatch.setenv(translation.VARIABLE, value)
    assert translation.is_off() == off


def test_another_word_is_refused(monkeypatch):
    monkeypatch.setenv(translation.VARIABLE, "offf")
    with pytest.raises(ConfigError, match=r"ACCEL_RL_TRANSLATE=offf: must be on or off; nearest: off"):
        translation.translation_file("pong")


@pytest.mark.slow
def test_two_processes_translate_a_game_once(tmp_path):
    """The second one waits for the first one's compiler."""
    program = "from accel_rl.emulator import translation; print(translation.translate('freeway'))"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop(translation.VARIABLE, None)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=300) for process in started]
    assert [out.split() for out, _ in outputs] == [[b"True"]] * 3 and not any(err for _, err in outputs)
