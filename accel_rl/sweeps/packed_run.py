"""A packed run: a zip of the files with which a run can continue, or be reported, on another machine.

A finished run is packed with its network in half precision (`ModelFolder`) in place of its checkpoints. An unfinished
run is packed with its newest checkpoint. The settings (config.json) are packed to compare them: a packed run is
unpacked only into a run with the same settings.
"""

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.model_folder import ModelFolder, evaluation_at
from accel_rl.files.durable_files import refuse_link, remove_folder
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError

FILES = (
    "config.json", "protocol.json", "versions.json", "launches.json", "changes-*.diff", "metrics.csv", "events.log",
    "evaluations/*.json", "model.json", "model.safetensors",
)  # fmt: skip
SCRATCH = ".carried"
FAST = 1  # Compression level: higher levels hardly reduce the size of an optimizer's state.
COMPARED = ("algorithm", "env", "algo", "seed", "env_steps", "schedule", "precision")
COMPARED_OF_SAMPLER = ("envs", "horizon", "reset", "decorrelation_steps")


def pack(run: Path, is_finished: bool) -> bytes:
    """Return the files of a run as a zip. Raises ConfigError if the run's newest checkpoint is damaged."""
    files = {file.relative_to(run).as_posix(): file for pattern in FILES for file in sorted(run.glob(pattern))}
    if not is_finished:
        return zipped(files | {file.relative_to(run).as_posix(): file for file in of_checkpoint(run)}, FAST)
    with tempfile.TemporaryDirectory() as folder:
        if Checkpoints(run / "checkpoints").steps():
            _write_model(run, Path(folder))
            files |= {file.name: file for file in Path(folder).iterdir()}
        return zipped(files)


def of_checkpoint(run: Path) -> Iterator[Path]:
    """Yield the files of a run's newest checkpoint, including its segments and the parts of all ranks."""
    for folder in (run, *run.glob("ranks/*")):
        checkpoints = Checkpoints(folder / "checkpoints")
        if steps := checkpoints.steps():
            path = checkpoints.path(steps[-1])
            yield from path.iterdir()
            for name in json.loads((path / "MANIFEST.json").read_text()).get("segments", []):
                if Path(name).name != name:
                    raise ConfigError(
                        f"{path / 'MANIFEST.json'} names the segment {name!r}, which is outside of the run"
                    )
                yield folder / "segments" / name


def _write_model(run: Path, folder: Path) -> None:
    state = checkpoint.load(Checkpoints(run / "checkpoints").path(Checkpoints(run / "checkpoints").steps()[-1]))
    learner, env_steps = state["learner"], state["env_steps"]
    about = {"env_steps": env_steps, "evaluation": evaluation_at(run, env_steps)}
    ModelFolder(folder).save(learner["network"], about, learner["algo"]["agent"], float16=True)


def zipped(files: Mapping[str, Path], level: int | None = None) -> bytes:
    """Return a zip of `files`, a mapping from names in the zip to paths. Raises ConfigError if a file is a link."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as z:
        for name, file in files.items():
            refuse_link(file, "its content would be packed")
            z.write(file, name)
    return buffer.getvalue()


def check_same(data: bytes, settings: Mapping[str, Any], source: str) -> None:
    """Raise ConfigError if the settings of a packed run differ from `settings`, the contents of a config.json."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        theirs, ours = _identity(json.loads(z.read("config.json"))), _identity(settings)
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise ConfigError(
                f"{source} has {name} {theirs.get(name)}, and this sweep's run has {value}: choose another --carry"
            )


def _identity(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that determine a run's results, as a flat dict."""
    values: dict[str, Any] = {}
    for name in COMPARED:
        value = settings.get(name)
        values |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return values | {f"sampler.{name}": settings["sampler"].get(name) for name in COMPARED_OF_SAMPLER}


def unpack(data: bytes, run: Path) -> None:
    """Write the files of a packed run, except the settings, into the folder of a run. The network and the checkpoints
    are written last: if the call is interrupted, the run looks incomplete and is unpacked again. If the packed run is
    finished, the checkpoints in the folder are removed. Raises ConfigError if a part of the run's folder is a link."""
    RunFolder(run).check_parts()
    scratch = run / SCRATCH
    refuse_link(scratch)
    remove_folder(scratch)
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        z.extractall(scratch)
    (scratch / "config.json").unlink()
    checkpoints = sorted(scratch.glob("**/checkpoints/*"), key=lambda path: -len(path.parts))  # rank 0's part last
    files = [p for p in scratch.rglob("*") if p.is_file() and p.parent not in checkpoints]
    for path in (*sorted(files, key=lambda file: file.name == "model.json"), *checkpoints):
        target = run / path.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            remove_folder(target)
        os.replace(path, target)
    shutil.rmtree(scratch)
    if ModelFolder(run).is_there:
        for name in ("checkpoints", "segments", "ranks"):
            remove_folder(run / name)
