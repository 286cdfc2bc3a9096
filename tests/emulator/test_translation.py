"""Games that are translated to C++ play exactly as in the emulator's plain core. Translations are cached."""

import _ctypes
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import AtariEmulator, VectorEnv, env_core, rom_compiler, translation
from accel_rl.emulator.games import read_rom, rom_path
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.protocols import PROTOCOLS
from accel_rl.text.errors import ConfigError
from tests.integration.runs import wait_for

pytestmark = pytest.mark.skipif(not rom_compiler.compilers(), reason="no C++ compiler")

# games with 2K, F8, F6, E0, FE and DPC cartridges, and with code in the RAM
KINDS = ["boxing", "seaquest", "solaris", "montezuma_revenge", "robotank", "up_n_down", "pitfall2"]


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache folder with the translation of Pong, which an emulator has loaded already. Pong is compiled without
    optimization, which takes a fifth of the time."""
    folder = tmp_path_factory.mktemp("cache")
    earlier = AtariEmulator("pong")._emulator
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.delenv(translation.VARIABLE, raising=False)
        file = translation.translation_file("pong")
        patch.setattr(rom_compiler, "FLAGS", (*rom_compiler.FLAGS, "-O0"))
        patch.setattr(rom_compiler, "FRAMES", (60, 600))
        rom_compiler.compile_rom(earlier, file)
        assert translation._insert(earlier, file)
    yield folder
    earlier.insert_translation(0)


@pytest.fixture
def cache(cached, tmp_path, monkeypatch):
    """Use a new copy of the cache folder, and return the path of Pong's translation in it."""
    shutil.copytree(cached, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(translation.VARIABLE, raising=False)
    translation._begun.clear()
    AtariEmulator("pong")._emulator.insert_translation(0)  # in all emulators
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
    rom_compiler.compile_rom(AtariEmulator(game, rom=rom)._emulator, folder / f"{game}.so")
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
    """ROMs with random wrong bytes are translated exactly, although they may jump to data, or to addresses outside the
    ROM."""
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

    def run_compiler(file, game, *_):
        compiled.append(game)
        time.sleep(0.2)
        file.write_bytes(complete)
        file.chmod(0o600)

    monkeypatch.setattr(translation, "run_compiler", run_compiler)
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
    for module in (translation, rom_compiler):
        monkeypatch.setattr(module, "compilers", lambda: ())
    cache.unlink()
    assert not translation.translate("pong") and "no C++ compiler" in translation.how_played("pong")
    emulator = AtariEmulator("pong")._emulator
    translation.begin(emulator, "pong")
    assert not emulator.is_translated and not translation._begun


def test_a_cached_translation_is_played_without_a_compiler(cache, monkeypatch):
    """A cached translation needs no compiler: a container image may be built with a compiler, but run without one."""
    for module in (translation, rom_compiler):
        monkeypatch.setattr(module, "compilers", lambda: ())
    assert translation.translate("pong") and translation.how_played("pong") == "pong is translated"
    emulator = AtariEmulator("pong")._emulator
    translation.begin(emulator, "pong")
    assert emulator.is_translated


def test_the_start_of_a_run_says_how_the_game_is_played(cache, capfd, tmp_path, monkeypatch):
    from accel_rl import train

    assert translation.how_played("pong") == "pong is translated"
    monkeypatch.setattr(translation, "run_compiler", lambda *_: None)
    cache.unlink()
    small = {"env_steps": 16, "envs": 2, "horizon": 8, "network": "a3c", "evaluation__interval": 0}
    train("ppo", game="pong", engine="in-process", decorrelation_steps=0, run_dir=str(tmp_path / "run"), **small)
    assert "pong is interpreted until it is translated\n" in capfd.readouterr().out


def test_the_file_depends_on_rom_and_machine(cache, tmp_path, monkeypatch):
    other = tmp_path / "other.bin"
    other.write_bytes(read_rom("pong")[:-1] + b"\0")
    files = {cache, translation.translation_file("pong", other), translation.translation_file("breakout")}
    monkeypatch.setattr(translation.platform, "machine", lambda: "another")
    files.add(translation.translation_file("pong"))
    assert len(files) == 4


def planted(folder: Path, action: str, version: str = "planted 1") -> Path:
    """Return the path of a fake C++ compiler, which appends a line to the file `calls` and runs `action`.

    The argument `action` is a shell command, in which $out is the name of the compiler's output file.
    """
    file = folder / "planted"
    file.write_text(
        f'#!/bin/sh\ntest "$1" = --version && echo {version} && exit 0\nfor word; do out="$word"; done\n'
        f"echo call >> {folder}/calls\n{action}\n"
    )
    file.chmod(0o755)
    return file


def translating(folder: Path, compiler: Path, code: str, only: bool = True, **variables: str) -> tuple[str, str]:
    """Run Python code that uses `translate` and `how_played`, with a fake compiler. With `only`, no other compiler is
    found.

    Returns standard output and standard error.
    """
    (folder / "bin").mkdir(exist_ok=True)
    if only and not (folder / "bin" / "cp").exists():
        (folder / "bin" / "cp").symlink_to(shutil.which("cp"))
    environment = {**os.environ, "CXX": str(compiler), **variables}
    environment |= {"PATH": str(folder / "bin")} if only else {}
    code = f"from accel_rl.emulator.translation import how_played, translate; {code}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_a_compiler_that_fails_is_one_line_and_is_not_tried_again(cache, tmp_path):
    """A compiler that failed is not started again within 24 hours, unless its version has changed."""
    cache.unlink()
    broken = planted(tmp_path, "echo does not compile >&2; exit 1")
    out, err = translating(tmp_path, broken, "print(translate('pong'), how_played('pong'))")
    assert out == f"False pong is interpreted, because {broken} failed to compile it in the last 24 hours\n"
    assert err == f"accel-rl: pong cannot be translated: {broken} (planted 1): does not compile\n"
    for _ in range(2):
        assert translating(tmp_path, broken, "print(translate('pong'))") == ("False\n", "")
    assert (tmp_path / "calls").read_text().count("call") == 1
    planted(tmp_path, "echo does not compile >&2; exit 1", "planted 2")
    assert "planted 2" in translating(tmp_path, broken, "translate('pong')")[1]
    two_days_ago = time.time() - 2 * 86_400
    for record in cache.parent.glob("*.failed"):
        os.utime(record, (two_days_ago, two_days_ago))
    assert "planted 2" in translating(tmp_path, broken, "translate('pong')")[1]
    assert (tmp_path / "calls").read_text().count("call") == 3
    assert not [file for file in cache.parent.iterdir() if file.is_dir()]


@pytest.mark.slow
def test_the_next_compiler_is_used_if_one_fails(cache, tmp_path):
    complete = cache.read_bytes()
    cache.unlink()
    (tmp_path / "library").write_bytes(complete[:-32])
    (tmp_path / "bin").mkdir()
    planted(tmp_path / "bin", f"cp {tmp_path}/library $out").rename(tmp_path / "bin" / "clang++")
    broken = planted(tmp_path, "echo does not compile >&2; exit 1")
    out, err = translating(tmp_path, broken, "print(translate('pong'), how_played('pong'))")
    assert out == "True pong is translated\n" and cache.read_bytes() == complete
    assert err.splitlines() == [
        f"accel-rl: {tmp_path}/bin/clang++ compiles the game, after {broken} (planted 1): does not compile"
    ]
    cache.unlink()
    assert translating(tmp_path, broken, "print(translate('pong'))") == ("True\n", "")
    assert (tmp_path / "calls").read_text().count("call") == 1


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["true", "echo garbage > $out", f"cp {_ctypes.__file__} $out"])
def test_what_a_compiler_writes_is_loaded_before_it_is_stored(cache, tmp_path, writes):
    """A compiled file is stored only if it can be loaded: a compiler may end without an error, but write nothing or
    garbage."""
    cache.unlink()
    out, err = translating(tmp_path, planted(tmp_path, writes), "print(translate('pong'), translate('pong'))")
    assert out == "False False\n" and err.count("pong cannot be translated") == 1
    assert (tmp_path / "calls").read_text().count("call") == 1 and list(cache.parent.glob("*.so")) == []


@pytest.mark.slow
def test_only_what_can_be_loaded_counts_as_translated(cache, tmp_path):
    """If the cache has a complete library that cannot be loaded, such as one for another ABI, the game is translated
    again."""
    complete = cache.read_bytes()
    (tmp_path / "library").write_bytes(complete[:-32])
    other = Path(_ctypes.__file__).read_bytes()
    cache.write_bytes(other + hashlib.sha256(other).digest())
    copying = planted(tmp_path, f"cp {tmp_path}/library $out")
    out, err = translating(tmp_path, copying, "print(how_played('pong'), translate('pong'), how_played('pong'))")
    assert out == "pong is interpreted until it is translated True pong is translated\n" and err == ""
    assert cache.read_bytes() == complete


@pytest.mark.slow
def test_two_versions_of_a_game_are_kept(cache, tmp_path):
    complete = cache.read_bytes()
    cache.unlink()
    (tmp_path / "library").write_bytes(complete[:-32])
    rom = cache.stem.rpartition("-")[0]
    names = [f"{rom}-{i:016x}" for i in range(3)] + ["rom-pong-0123456789abcdef-0123456789abcdef", "rom-pong_2-1-1"]
    for i, name in enumerate(names):
        for end in ("so", "lock", "0123456789ab.failed"):
            file = cache.parent / f"{name}.{end}"
            file.write_text("")
            os.utime(file, (1000 + i, 1000 + i))
    assert translating(tmp_path, planted(tmp_path, f"cp {tmp_path}/library $out"), "print(translate('pong'))")[0]
    left = {file.name.partition(".")[0] for file in cache.parent.glob("rom-*")}
    assert left == {cache.stem, names[2], names[3], names[4]}


@pytest.mark.slow
def test_an_environment_is_interpreted_beside_a_translated_one(tmp_path, monkeypatch):
    """An environment with translate=False is slower than an environment of the same process that plays a translated
    game."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(translation.VARIABLE, raising=False)
    assert translation.translate("pong")
    with_translation = VectorEnv("pong", 1)
    without = VectorEnv("pong", 1, translate=False)
    assert with_translation._games[0].is_translated and not without._games[0].is_translated
    seconds = {}
    for env in (with_translation, without):
        env.reset(seed=1)
        env.step(np.zeros(1, int))
        began = time.process_time()
        for _ in range(400):
            env.step(np.zeros(1, int))
        seconds[env] = time.process_time() - began
        env.close()
    assert seconds[with_translation] < seconds[without]


PLAY = "from accel_rl.emulator import VectorEnv; env = VectorEnv('pong', 1); print(env._games[0].is_translated)"
SHORT = PLAY + "; import time; time.sleep(2)"
"""A program that starts the compilation of Pong, and ends before the compiler has ended."""


def processes_of(mark: str) -> list[psutil.Process]:
    """Return the processes whose environment variable XDG_CACHE_HOME is `mark`."""
    result = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("XDG_CACHE_HOME") == mark:
                result.append(process)
    return result


def run_short(folder: Path, **variables: str) -> str:
    """Run the program SHORT, and return its output."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), **variables}
    environment.pop(translation.VARIABLE, None)
    return subprocess.run([sys.executable, "-c", SHORT], env=environment, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
def test_a_game_is_translated_when_a_short_program_starts_again(tmp_path):
    """The compiler continues after the program that started it has ended, and leaves only the translation in the
    cache."""
    assert run_short(tmp_path) == "False\n"
    ended_after = processes_of(str(tmp_path))
    assert ended_after
    with contextlib.suppress(psutil.NoSuchProcess):
        wait_for(lambda: ended_after[0].nice() == 19, 10, "the lowest priority")
    wait_for(lambda: not processes_of(str(tmp_path)), 120, "the compiler's end")
    left = [file.name for file in (tmp_path / "accel_rl").iterdir() if not file.name.endswith(".lock")]
    assert len(left) == 1 and left[0].endswith(".so"), left
    assert run_short(tmp_path) == "True\n" and not processes_of(str(tmp_path))


@pytest.mark.slow
def test_short_programs_begin_one_compiler(tmp_path):
    """Of three short programs that play the same game, only the first starts a compiler."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").symlink_to(shutil.which("sleep"))
    slow = planted(tmp_path, "sleep 5; exit 1")
    for _ in range(3):
        run_short(tmp_path, CXX=str(slow), PATH=f"{tmp_path}/bin")
    wait_for(lambda: (tmp_path / "calls").exists())
    wait_for(lambda: not processes_of(str(tmp_path)), 60, "the compiler's end")
    assert (tmp_path / "calls").read_text().count("call") == 1


@pytest.mark.slow
def test_a_compiler_without_a_parent_has_a_time_limit(tmp_path):
    """A compiler that continues after its program's end is killed at a time limit, and its temporary folder is
    removed."""
    slow = planted(tmp_path, "sleep 100")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CXX": str(slow)}
    file = tmp_path / "accel_rl" / "rom-pong-1-2.so"
    code = (
        "import signal, sys; from accel_rl.emulator import rom_compiler;"
        "signal.alarm = lambda seconds: print(seconds, flush=True);"
        f"sys.exit(rom_compiler.main('pong', '', {str(file)!r}, '0', 'outlives'))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    wait_for((tmp_path / "calls").exists)
    assert process.poll() is None and process.stdout.readline() == f"{rom_compiler.LIMIT_S:g}\n"
    process.send_signal(signal.SIGALRM)
    assert process.wait(30) == 1 and not list((tmp_path / "accel_rl").iterdir())
    wait_for(lambda: not processes_of(str(tmp_path)), 10, "their ends")


def test_the_compiler_of_a_run_ends_with_the_run(monkeypatch):
    """A compiler that EmulatorEnv starts ends when the run's process ends. A compiler that VectorEnv starts may
    continue after the end of the process."""
    begun = []
    monkeypatch.setattr(env_core, "begin", lambda *arguments: begun.append(arguments[-1]))
    EmulatorEnv("pong", next(iter(PROTOCOLS.values())), seed=1)
    VectorEnv("pong", 1).close()
    assert begun == [False, True]


def test_a_stored_library_that_cannot_be_loaded_is_compiled_again(cache, monkeypatch):
    complete = cache.read_bytes()
    cache.write_bytes(b"garbage" + hashlib.sha256(b"garbage").digest())

    def run_compiler(file, game, *_):
        file.write_bytes(complete)

    monkeypatch.setattr(translation, "run_compiler", run_compiler)
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
    monkeypatch.setattr(translation, "run_compiler", lambda *_: pytest.fail("compiled"))
    cache.parent.chmod(0o770)
    emulator = AtariEmulator("pong")._emulator
    assert not translation._insert(emulator, cache) and not emulator.is_translated
    line = translation.how_played("pong")
    assert line.startswith(f"pong is interpreted, because the folder {cache.parent} can be written by others")
    with caplog.at_level("INFO"):
        translation._compile(emulator, cache, "pong", None, outlives=False)
    assert "set XDG_CACHE_HOME" in caplog.text and not emulator.is_translated


def test_a_lock_file_is_neither_followed_nor_emptied(tmp_path):
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "a.lock").symlink_to(tmp_path / "thesis")
    (tmp_path / "b.lock").write_text("mine")
    with (
        pytest.raises(ConfigError, match=r"a\.lock is a link"),
        rom_compiler.held([tmp_path / "a.lock"], time.monotonic() + 1),
    ):
        pass
    with rom_compiler.held([tmp_path / "b.lock"], time.monotonic() + 1):
        pass
    assert (tmp_path / "thesis").read_text() == (tmp_path / "b.lock").read_text() == "mine"


def test_a_few_compilers_run_at_once(tmp_path):
    """If the maximum number of compilers are running, another compiler waits, and gives up at its deadline."""
    files = rom_compiler.turns(tmp_path)[:1]
    held = lambda seconds: rom_compiler.held(files, time.monotonic() + seconds)  # noqa: E731
    with held(5), pytest.raises(TimeoutError, match="other compilers"), held(0.1):
        pass
    with held(5):
        pass


def test_a_compiler_ends_with_its_run(tmp_path):
    """If a training run is killed, its compiler and the compiler's child processes end, and their temporary folder is
    removed."""
    lines = [
        "import sys, time",
        "from accel_rl.emulator import AtariEmulator, translation",
        "translation.begin(AtariEmulator('pong')._emulator, 'pong', outlives=False)",
        "time.sleep(60)",
    ]
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    variables.pop(translation.VARIABLE, None)
    run = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], env=variables)
    wait_for(
        lambda: (
            any("cc1plus" in process.name() for process in processes_of(str(tmp_path)))
            or list(tmp_path.rglob("rom-pong-*.so"))
        )
    )
    run.kill()
    run.wait()
    wait_for(lambda: not processes_of(str(tmp_path)), 10, "their ends")
    assert not [file for file in (tmp_path / "accel_rl").iterdir() if file.is_dir()]


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
OTHER = 65534


@pytest.mark.slow
@AS_ROOT
def test_another_user_plays_what_root_has_translated_into_the_system_cache(cache):
    """A user plays the translations that root has made, for example when a container image was built.

    The user in this test has no compiler, and cannot write to the home folder.
    """
    files = (Path(translation.__file__), rom_path("pong"))
    if closed := [folder for file in files for folder in file.parents if not folder.stat().st_mode & 0o001]:
        pytest.skip(f"another user cannot enter {closed[0]}")
    # Other users cannot enter pytest's temporary folders.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        system = top / "system"
        (top / "library").write_bytes(cache.read_bytes()[:-32])
        copying = planted(top, f"cp {top}/library $out")
        variables = {"XDG_CACHE_HOME": str(top / "of root"), "ACCEL_RL_SYSTEM_CACHE": str(system)}
        assert translating(top, copying, "print(translate('pong'))", **variables) == ("True\n", "")
        assert (system / cache.name).read_bytes() == cache.read_bytes() and not (top / "of root").exists()
        before = sorted((file.name, file.stat().st_mtime_ns) for file in system.iterdir())
        (top / "home").mkdir(mode=0o755)
        environment = {**os.environ, "HOME": str(top / "home"), "PATH": str(top / "home"), **variables}
        environment.pop("XDG_CACHE_HOME")
        # Modules are imported as root, because the other user may be unable to read Python's files.
        code = (
            "import os, pwd, accel_rl.emulator as e, accel_rl.emulator.translation as t\n"
            "e.VectorEnv('pong', 1, translate=False).close()\n"
            f"os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER}); os.chdir('/')\n"
            f"{PLAY}\nprint(t.how_played('pong'), t.translate('pong'))"
        )

        def of_other() -> str:
            command = [sys.executable, "-c", code]
            return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout

        assert of_other() == "True\npong is translated True\n"
        assert before == sorted((file.name, file.stat().st_mtime_ns) for file in system.iterdir())
        for path, owner, mode in ((system, 0, 0o777), (top, 0, 0o777), (system, OTHER + 1, 0o755)):
            was = path.stat()
            path.chmod(mode)
            os.chown(path, owner, owner)
            line = of_other()
            assert line.startswith("False\n") and "ACCEL_RL_SYSTEM_CACHE is not used, because" in line, line
            os.chown(path, 0, 0)
            path.chmod(was.st_mode & 0o777)
        os.chown(system / cache.name, OTHER + 1, OTHER + 1)
        assert of_other().startswith("False\n")


def test_a_missing_system_cache_is_reported(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_RL_SYSTEM_CACHE", str(tmp_path / "none"))
    line = translation.how_played("pong")
    assert line == f"pong is translated; ACCEL_RL_SYSTEM_CACHE is not used, because there is no folder {tmp_path}/none"


def test_headers_that_have_changed_since_the_compilation_are_not_compiled(tmp_path):
    """A game is not translated with headers that differ from those of the compiled extension, as after a git pull.

    A translation with changed headers would write to wrong addresses in the extension's console.
    """
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
    monkeypatch.setattr(rom_compiler, "core", lambda: type("Core", (), {"LAYOUT": 0}))
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
    """Of two processes that translate the same game, the second waits for the compiler of the first."""
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
