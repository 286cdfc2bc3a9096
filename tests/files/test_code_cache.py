"""The cache of compiled code is read only if trusted users own its files, and exactly the checked bytes are loaded."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from accel_rl.files import code_cache
from accel_rl.text.errors import ConfigError

OTHER = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def file(tmp_path):
    result = tmp_path / "cache" / "accel_rl" / "a.so"
    code_cache.write(result, b"code")
    return result


def library(tmp_path: Path, number: int) -> bytes:
    """Return the bytes of a shared library whose function `number` returns `n`."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "a.c").write_text(f"int number(void) {{ return {number}; }}\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "a.out", tmp_path / "a.c"], check=True)
    return (tmp_path / "a.out").read_bytes()


def test_a_file_is_read_as_it_was_written(file):
    assert code_cache.read(file) == b"code" and code_cache.read(file.with_name("none")) is None
    code_cache.write(file, b"other")
    assert code_cache.read(file) == b"other" and [p.name for p in file.parent.iterdir()] == ["a.so"]
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("change", ["cut", "flipped", "writable", "link", "pipe", pytest.param("owner", marks=AS_ROOT)])
def test_a_damaged_file_or_one_of_somebody_else_is_not_read(file, change):
    content = file.read_bytes()
    if change == "cut":
        file.write_bytes(content[:-1])
    elif change == "flipped":
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif change == "writable":
        file.chmod(0o620)
    elif change == "owner":
        os.chown(file, OTHER, OTHER)
    else:
        file.rename(file.parent / "aside")
        file.symlink_to("aside") if change == "link" else os.mkfifo(file, 0o600)
    assert code_cache.read(file) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_write_is_refused(file, mode):
    file.parent.chmod(mode)
    for call in (code_cache.read, lambda file: code_cache.write(file, b"1")):
        with pytest.raises(ConfigError, match=r"can be written by others.*set XDG_CACHE_HOME"):
            call(file)
    assert str(file.parent) in code_cache.refusal(file.parent)
    file.parent.chmod(0o755)
    assert code_cache.read(file) == b"code" and code_cache.refusal(file.parent) == ""


@AS_ROOT
def test_a_folder_of_somebody_else_is_refused(file):
    """A cache folder of another user is refused, as in a shared cache (XDG_CACHE_HOME=/scratch/group)."""
    os.chown(file.parent, OTHER, OTHER)
    with pytest.raises(ConfigError, match=r"belongs to nobody.*set XDG_CACHE_HOME"):
        code_cache.read(file)


def test_a_folder_that_is_exchanged_after_the_check_is_not_read(file, tmp_path):
    with code_cache.opened(file.parent) as folder:
        file.parent.rename(tmp_path / "aside")
        file.parent.mkdir()
        file.write_bytes(b"evil")
        assert (folder / "a.so").read_bytes().startswith(b"code")
    assert code_cache.read(file) is None


def test_a_link_to_a_folder_of_this_user_is_followed(file, tmp_path):
    """A symbolic link to a folder of the same user is followed: many users link ~/.cache to a larger disk."""
    (tmp_path / "linked").symlink_to(file.parent)
    assert code_cache.read(tmp_path / "linked" / "a.so") == b"code"


@pytest.mark.parametrize("has_memfd", [True, False])
def test_libraries_are_loaded_from_their_bytes(tmp_path, monkeypatch, has_memfd):
    def refuse(name: str) -> int:
        raise OSError(38, "Function not implemented")

    if not has_memfd:
        monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    contents = [library(tmp_path, 10 * has_memfd + n) for n in range(3)]
    loaded = [code_cache.library(content) for content in contents]
    assert [x.number() for x in loaded] == [10 * has_memfd + n for n in range(3)]
    assert code_cache.library(contents[0]) is loaded[0]
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(OSError, match="file too short"):
        code_cache.library(b"\x7fELF")


def test_without_a_home_folder_the_cache_is_temporary(tmp_path):
    """Without a home folder, the cache is a folder in /tmp with a random name: another user may own a predictable
    name."""
    code = (
        "import os, subprocess, sys\n"
        "from pathlib import Path\n"
        "Path.home = lambda: (_ for _ in ()).throw(RuntimeError('Could not determine home directory.'))\n"
        "from accel_rl.files.code_cache import cache_folder, write\n"
        "folder = cache_folder()\n"
        "write(folder / 'a', b'1')\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait()\n"
        "print(folder, cache_folder() == folder, folder.is_dir(), oct(folder.stat().st_mode))\n"
        "if len(sys.argv) < 2: subprocess.run([sys.executable, '-c', sys.orig_argv[2], 'child'], check=True)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"} | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == second and first.endswith("True True 0o40700")
    assert done.stderr.count("there is no home folder") == 1
    assert Path(first.split()[0]).name != f"accel_rl-{os.getuid()}" and list(tmp_path.iterdir()) == []
