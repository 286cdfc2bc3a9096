"""Uploads models to a model hub (huggingface_hub), and downloads models from it. A local folder can replace the hub."""

import importlib
import importlib.util
import os
import shutil
import stat
from pathlib import Path
from shlex import quote
from typing import Any

from accel_rl.checkpoints.model_folder import ModelFolder, check_new
from accel_rl.settings.train import read_settings
from accel_rl.text.errors import ConfigError, RunError


def _hub() -> Any:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ConfigError("huggingface_hub is not installed: pip install 'accel_rl[hub]'")
    return importlib.import_module("huggingface_hub")


def is_folder(place: str) -> bool:
    """The path of a local folder begins with /, . or ~. Any other `place` is the name of a model on the hub."""
    return place.startswith(("/", ".", "~"))


def check_name(place: str) -> None:
    """Raise ConfigError if `place` names neither a folder nor a model."""
    parts = place.split("/")
    if not is_folder(place) and (len(parts) != 2 or not all(parts)):
        raise ConfigError(f"{place!r}: must be NAME/MODEL on the hub, or a folder that begins with / . or ~")


def push(model: Path, place: str, private: bool = False) -> str:
    """Return the model's address. `place` is NAME/MODEL on the hub, or a new folder. Raises ConfigError for wrong
    settings, and RunError if the hub refuses the model."""
    check_name(place)
    read_settings(model)
    if not ModelFolder(model).is_there:
        raise ConfigError(f"{model} holds no model: make one with accel-rl export {quote(str(model))}")
    ModelFolder(model).load()
    _check_files(model)
    if is_folder(place):
        return str(_copied(model, Path(place).expanduser()))
    hub = _hub()
    try:
        api = hub.HfApi()
        api.create_repo(place, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=place, folder_path=str(model), commit_message="accel_rl"))
    except Exception as e:  # All exceptions are caught, because the hub's errors have no common class.
        raise RunError(f"the hub did not take {place}: {_one_line(e)}") from e


def pull(place: str, out: Path) -> Path:
    """Download a model into a new folder. Raises ConfigError or RunError."""
    check_name(place)
    if is_folder(place):
        source = Path(place).expanduser()
        if not ModelFolder(source).is_there:
            raise ConfigError(f"{source} holds no model")
        _check_files(source)
        return _copied(source, out)
    check_new(out)
    hub = _hub()
    try:
        hub.snapshot_download(place, local_dir=str(out))
    except Exception as e:
        raise RunError(f"{place} could not be downloaded: {_one_line(e)}") from e
    if not ModelFolder(out).is_there:
        raise RunError(f"{place} is no model of accel_rl: it has no model.safetensors")
    return out


def _check_files(model: Path) -> None:
    """Raise ConfigError if a model's folder contains anything but files and folders. The file to which a link leads,
    such as a private key of the user, would become a part of the model."""
    for folder, subfolders, files in os.walk(model):
        for path in (Path(folder, name) for name in (*subfolders, *files)):
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise ConfigError(f"{path} is {kind}: a model has only files; remove it, or copy the file there")


def _copied(source: Path, out: Path) -> Path:
    check_new(out)
    try:
        # With symlinks=True, a link that appears after the check is not followed.
        shutil.copytree(source, out, symlinks=True, dirs_exist_ok=True)
    except OSError as e:
        raise RunError(f"{out} could not be written: {e.strerror or e}") from e
    return out


def _one_line(e: BaseException) -> str:
    return " ".join(str(e).split()) or type(e).__name__
