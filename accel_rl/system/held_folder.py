"""A process detects that the folder in which it writes was removed, moved or replaced by another folder."""

import errno
import os
from pathlib import Path

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


class HeldFolder:
    """A `HeldFolder` holds a descriptor of a folder, which identifies the folder even if its path changes."""

    def __init__(self, path: Path):
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def is_at(self, path: Path) -> bool:
        """Return whether the folder is at a path. Errors other than a missing path do not mean that the folder was
        moved."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._descriptor))
        except OSError as error:
            return error.errno not in GONE

    def follow(self) -> Path | None:
        """Return the current path of the folder, or None if the folder was removed or its new path is unknown."""
        if not self.is_at(self.path):
            try:  # Linux appends " (deleted)" to the path of a removed folder.
                moved = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
            except OSError:
                return None
            if not self.is_at(moved):
                return None
            self.path = moved
        return self.path

    def close(self) -> None:
        os.close(self._descriptor)
