"""Check the files in a wheel and a source archive: python .ci/wheel_contents.py FILE.whl FILE.tar.gz ... The exit code
is 1 if an archive has a wrong file."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

DATA = (
    "accel_rl/py.typed",
    "accel_rl/api/train_settings.pyi",
    "accel_rl/emulator/games.json",
    "accel_rl/envs/scores.json",
    "accel_rl/papers/libraries/curves.csv",
    "accel_rl/papers/stooke/published.json",
    # At run time, NVRTC compiles the header for the GPU.
    "accel_rl/emulator/core/types.h",
    "accel_rl/emulator/core/fast/tia.h",
    "accel_rl/emulator/device/kernels/kernels.cu",
    "accel_rl/emulator/device/kernels/step.h",
)
SOURCES = ("accel_rl/emulator/binding.cpp", "accel_rl/kernels/src/module.cpp", "accel_rl/kernels/src/nn/conv_u8.h")
COMPILED = (r"accel_rl/emulator/_core\.[\w-]+\.(so|pyd)", r"accel_rl/kernels/_native\.[\w-]+\.(so|pyd)")


def names(path: Path) -> list[str]:
    """Return the paths inside an archive, without the first folder of a source archive."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def wrong(path: Path) -> list[str]:
    found, wheel = names(path), path.suffix == ".whl"
    wanted = [re.escape(name) for name in DATA]
    wanted += (
        [*COMPILED, r".*/LICENSE"]
        if wheel
        else [*map(re.escape, SOURCES), "LICENSE", "setup\\.py", "settings_stub\\.py"]
    )
    problems = [f"lacks {name}" for name in wanted if not any(re.fullmatch(name, f) for f in found)]
    if wheel:
        added = {name.partition("/")[0] for name in found if ".dist-info/" not in name}
        problems += [f"adds {name}" for name in sorted(added - {"accel_rl"})]
        if "-linux_" in path.name:
            problems.append("has no manylinux tag: run auditwheel repair")
    else:
        foreign = ("tests/", "docs/", ".ci/", ".github/")
        problems += [f"has {name}" for name in found if name.startswith(foreign) or name.endswith((".so", ".pyd"))]
    return problems


def main(paths: list[str]) -> int:
    if not paths:
        raise SystemExit(__doc__)
    problems = [f"{path}: {problem}" for path in paths for problem in wrong(Path(path))]
    print("\n".join(problems) or f"{', '.join(Path(path).name for path in paths)}: complete")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
