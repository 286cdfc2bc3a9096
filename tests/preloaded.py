"""C libraries that LD_PRELOAD loads before the C library."""

import os
import subprocess
from pathlib import Path

from accel_rl.text.errors import ConfigError


def compiler() -> str:

    return os.environ.get("CC", "cc")


def compiled(source: Path, folder: Path) -> Path:
    """Compile a source file into a library in a folder, and return its path. Raises ConfigError without a C
    compiler."""
    library = folder / f"{source.stem}.so"
    command = [compiler(), "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(f"{source.name} needs a C compiler, and there is no {compiler()}") from None
    except subprocess.CalledProcessError as e:
        raise ConfigError(f"{source} cannot be compiled: {e.stderr.strip().splitlines()[0]}") from None
    return library
