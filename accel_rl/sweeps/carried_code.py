"""Carry translated games and compiled kernels with a sweep, so that another machine does not have to compile them.

The name of a file of compiled code depends on the kind of machine and on the sources. When a file is read, its digest
is checked. Compiled code is executed, so it is read only from files that other users cannot write.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from accel_rl.emulator.translation import translation_file
from accel_rl.files import code_cache
from accel_rl.files.code_cache import cache_folder
from accel_rl.sweeps.carried import Carried, Item
from accel_rl.text.counts import counted

NAME = ".compiled"
MOST_FILES = 40
PREFIXES = ("rom-", "emulator-")


def files_of(games: Iterable[str], carried: Carried) -> list[Path]:
    """Return the files of this machine's cache folder that are to be carried: the translations of games, the newest
    compiled kernels, and the files that `carried` already has, which may be of another compiler or GPU. Files that
    other users could have written are left out."""
    if code_cache.refusal(cache_folder()):
        return []
    kernels = sorted(cache_folder().glob("emulator-*"), key=lambda file: file.stat().st_mtime)
    translated = [translation_file(game) for game in sorted(set(games))]
    item = carried.newest(NAME)
    earlier = zipfile.ZipFile(io.BytesIO(carried.get(item))).namelist() if item and carried.is_private else []
    files = dict.fromkeys([*translated, *kernels[-1:], *(cache_folder() / Path(name).name for name in earlier)])
    return [file for file in files if file is not None and code_cache.read(file) is not None][:MOST_FILES]


def item_of(files: Iterable[Path]) -> Item:
    """Return the item of --carry that contains exactly these files. The item's number is a hash of the files' names."""
    names = "\n".join(file.name for file in files)
    return Item(NAME, int(hashlib.sha256(names.encode()).hexdigest()[:12], 16))


def pack(files: Iterable[Path]) -> bytes:
    """Return the files as a zip, without files that other users could have written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        for file in files:
            if (content := code_cache.read(file)) is not None:
                z.writestr(file.name, content)
    return buffer.getvalue()


def unpack(data: bytes) -> int:
    """Store the packed files that are not in this machine's cache folder, and return their number. Raises ConfigError
    if other users could write to the cache folder."""
    stored = 0
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for name in z.namelist():
            file = cache_folder() / name
            if Path(name).name == name and name.startswith(PREFIXES) and not file.exists():
                code_cache.write(file, z.read(name))
                stored += 1
    return stored


def carry_in(carried: Carried) -> str:
    """Copy compiled code from --carry to this machine's cache folder, and return a line about it, or "" if there was
    nothing to copy."""
    if (item := carried.newest(NAME)) is None:
        return ""
    if not carried.is_private:
        return f"compiled code in {carried.path} is not used, because other users can write it"
    if reason := code_cache.refusal(cache_folder()):
        return f"compiled code in {carried.path} is not used, because {reason}"
    stored = unpack(carried.get(item))
    return f"{counted(stored, 'file')} of compiled code from {carried.path}" if stored else ""
