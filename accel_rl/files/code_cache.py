"""Code that is compiled at its first use is stored in the cache folder, from which later processes load it.

Whoever can write a cached file, or exchange its folder, runs code as this user. The cache folder is therefore opened
once and checked as ssh checks ~/.ssh: the folder must belong to this user, and others may not write to it. All files
are opened relative to the opened folder, without following links. Each file is opened once, so that exactly the checked
bytes are loaded.

    | $ACCEL_RL_SYSTEM_CACHE   code compiled when a container image was built; may belong to root; runs only read it
    | cache_folder()           code compiled at its first use; belongs to this user

Files are looked up in the system cache first. The system cache is used only if root or this user owns the folder, and
nobody else can write to this folder or to the folders above.
"""

import atexit
import contextlib
import ctypes
import hashlib
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from accel_rl.files.durable_files import remove_folder
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once

SYSTEM = "ACCEL_RL_SYSTEM_CACHE"
"""The environment variable `ACCEL_RL_SYSTEM_CACHE` names the folder of the system cache."""
_TEMPORARY = "ACCEL_RL_TEMPORARY_CACHE"
"""The environment variable that passes the temporary cache folder of a user without a home folder to child
processes."""
_DIGEST_BYTES = 32
_libraries: dict[bytes, ctypes.CDLL] = {}  # Maps the sha256 of each loaded library to the library.


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/accel_rl or ~/.cache/accel_rl. The folder may not exist yet. A user without a home folder gets a
    new temporary folder, which is removed when this process ends."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "accel_rl"
    try:
        return Path.home() / ".cache" / "accel_rl"
    except RuntimeError:
        return _temporary_folder()


def is_temporary() -> bool:
    """Whether the cache folder is removed when this process, or the parent that created it, ends."""
    return os.environ.get(_TEMPORARY) == str(cache_folder())


def system_folder() -> Path | None:
    """The folder of the system cache, or None if $ACCEL_RL_SYSTEM_CACHE is not set."""
    return Path(os.path.abspath(name)) if (name := os.environ.get(SYSTEM)) else None


def folder_to_fill() -> Path:
    """The folder for code that is compiled in advance: the system cache if this user may write to it, and otherwise the
    cache folder."""
    if (folder := system_folder()) is not None:
        with contextlib.suppress(OSError, ConfigError), opened(folder, create=True) as system:
            if os.access(system, os.W_OK):
                return folder
    return cache_folder()


def _temporary_folder() -> Path:
    if _TEMPORARY not in os.environ:
        folder = tempfile.mkdtemp(prefix="accel_rl-")
        os.environ[_TEMPORARY] = folder
        atexit.register(_remove, folder, os.getpid())
        say_once("there is no home folder: compiled code is kept until this process ends; or set XDG_CACHE_HOME")
    return Path(os.environ[_TEMPORARY])


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # A forked process also calls `_remove`, and must not remove the folder.
        remove_folder(folder)


@contextlib.contextmanager
def opened(folder: Path, create: bool = False) -> Iterator[Path]:
    """Open and check a cache folder, and yield a path that leads to the opened folder, even if another folder gets its
    name later. With `create`, a missing folder is created. Raises ConfigError if others could write to the folder, and
    OSError."""
    if create:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o755 if folder == system_folder() else 0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if reason := _danger(os.fstat(descriptor), folder):
            raise ConfigError(f"the folder {folder} {reason}")
        for above in folder.resolve().parents if folder == system_folder() else ():
            status = os.stat(above)
            # In a folder such as /tmp (the sticky bit), only a file's owner may exchange the file.
            if _danger(status, folder) and not status.st_mode & stat.S_ISVTX:
                raise ConfigError(f"the folder {folder} is below {above}, which {_danger(status, folder)}")
        yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _danger(status: os.stat_result, folder: Path | None = None) -> str:
    """A text that explains why others could write to a file or folder whose os.stat is `status`, and how to prevent
    this. The text is "" if others cannot write to it. In the system cache, root may own files."""
    is_system = folder is not None and folder == system_folder()
    remedy = f"set {SYSTEM if is_system else 'XDG_CACHE_HOME'} to a folder of your own"
    if status.st_uid != os.geteuid() and not (is_system and status.st_uid == 0):
        return f"belongs to {_user(status.st_uid)}, whose code would run as yours: {remedy}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others, whose code would run as yours: remove it, or {remedy}"
    return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and others cannot write it."""
    return not _danger(status)


def refusal(folder: Path) -> str:
    """A text that explains why a cache folder is not used, or "" if it can be used or does not exist."""
    try:
        with opened(folder):
            return ""
    except ConfigError as error:
        return str(error)
    except OSError:
        return ""


def read(file: Path) -> bytes | None:
    """Return the first content that `contents` yields, or None. Raises ConfigError if others could write to the
    folder."""
    return next(contents(file), None)


def contents(file: Path) -> Iterator[bytes]:
    """Yield the content of the file in the system cache that has the name of `file`, and then the content of `file`. A
    file that is missing or damaged, or that others may have written, is skipped. Raises ConfigError if others could
    write to the file's folder."""
    system = system_folder()
    if system is not None and system != file.parent:
        with contextlib.suppress(ConfigError):  # `refusal` reports why this cache is not used.
            yield from _content(system / file.name)
    yield from _content(file)


def _content(file: Path) -> list[bytes]:
    """[content] of a cached file, or [] if the file is missing or must not be used."""
    try:
        with opened(file.parent) as folder:
            # O_NONBLOCK is set because opening a pipe would wait.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(folder / file.name, flags), "rb") as f:
                status, content = os.fstat(f.fileno()), f.read()
    except OSError:
        return []
    result, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    is_good = not _danger(status, file.parent) and hashlib.sha256(result).digest() == digest
    return [result] if is_good else []


def write(file: Path, content: bytes) -> None:
    """Create or replace a cached file atomically. Raises ConfigError if others could write to the folder, and
    OSError."""
    with opened(file.parent, create=True) as folder:
        write_in(folder, file, content)


def write_in(folder: Path, file: Path, content: bytes) -> None:
    """Create or replace a cached file in its folder, which `opened` has yielded. Raises OSError, also if the folder was
    removed after it was opened."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=f"{file.stem}-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content + hashlib.sha256(content).digest())
            if file.parent == system_folder():
                os.fchmod(f.fileno(), 0o644)  # Other users may read the system cache.
        os.replace(name, folder / file.name)
    except BaseException:
        os.unlink(name)
        raise


def library(content: bytes) -> ctypes.CDLL:
    """Load a shared library once in this process. Raises OSError."""
    digest = hashlib.sha256(content).digest()
    if digest not in _libraries:
        _libraries[digest] = _loaded(content)
    return _libraries[digest]


def _loaded(content: bytes) -> ctypes.CDLL:
    try:
        # The descriptor is never closed: dlopen returns an earlier library for a path that it has loaded before.
        return ctypes.CDLL(f"/proc/self/fd/{_written(os.memfd_create('accel_rl'), content)}")
    except OSError:  # Some kernels have no memfd, or do not allow code in a memfd to be executed.
        handle, name = tempfile.mkstemp(prefix="accel_rl-", suffix=".so")
        try:
            os.close(_written(handle, content))
            return ctypes.CDLL(name)
        finally:
            os.unlink(name)


def _written(descriptor: int, content: bytes) -> int:
    with open(descriptor, "wb", closefd=False) as f:
        f.write(content)
    return descriptor
