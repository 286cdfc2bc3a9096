"""Sends metrics to Weights & Biases, if enabled. Weights & Biases can delay a run only for a limited time, and never
ends a run. The API key of Weights & Biases is not stored in the run folder."""

import importlib.util
import inspect
import logging
import math
import os
from pathlib import Path
from typing import Any

from accel_rl.files.durable_files import write_durably
from accel_rl.metrics.sinks import Row, Sink
from accel_rl.metrics.tags import tag
from accel_rl.text.errors import ConfigError

logger = logging.getLogger(__name__)

INSTALL = "pip install wandb"
START_TIMEOUT_S = 20.0


def check_wandb(mode: str) -> None:
    """Raise ConfigError if the package wandb is missing, or the API key that the mode `online` needs."""
    if mode != "disabled" and importlib.util.find_spec("wandb") is None:
        raise ConfigError(f"--wandb {mode} needs the package wandb: {INSTALL}")
    if mode == "online":
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
        try:
            # `login` has the parameter `prompt` only since wandb 0.31.
            has_key = "prompt" not in inspect.signature(wandb.login).parameters or wandb.login(
                prompt=False, verify=False
            )
        except Exception as e:
            raise ConfigError(f"--wandb online: {' '.join(str(e).split())}; or --wandb offline") from e
        if not has_key:
            raise ConfigError("--wandb online has no API key: run `wandb login`, or choose --wandb offline")


class WandbSink(Sink):
    def __init__(self, run: Any):
        self._run = run

    def write(self, row: Row) -> None:
        if self._run is None:
            return
        numbers = {k: v for k, v in row.items() if isinstance(v, int | float) and math.isfinite(v)}
        env_steps = numbers.pop("env_steps")
        values = {"global_step": env_steps, **{tag(name): x for name, x in numbers.items()}}
        try:
            self._run.log(values, step=int(row["env_steps"]))
        except Exception as e:
            logger.warning(f"wandb: logging failed ({e}); going on without it")
            self._run = None

    def close(self) -> None:
        if self._run is not None:
            try:
                self._run.finish()
            except Exception as e:
                logger.warning(f"wandb: could not finish ({e})")


def wandb_sink(config: Any, folder: Path) -> list[Sink]:
    """Return a list with the sink of Weights & Biases, which is empty if the sink is disabled or wandb cannot start (a
    message is printed once). If the server does not answer in time, wandb writes offline files. Raises ConfigError if
    the run's folder contains a settings file of wandb."""
    if config.wandb == "disabled":
        return []
    os.environ.setdefault("WANDB_SILENT", "true")
    for kind in ("CACHE", "CONFIG", "DATA"):  # wandb writes its files to the run folder.
        os.environ.setdefault(f"WANDB_{kind}_DIR", str(folder.absolute() / "wandb" / kind.lower()))
    file = folder.absolute() / "wandb" / "config" / "settings"
    if file.exists() and os.environ["WANDB_CONFIG_DIR"] == str(file.parent):
        raise ConfigError(f"{file} could make wandb send the metrics to another server; remove it")
    for mode in dict.fromkeys((config.wandb, "offline")):
        try:
            import wandb

            settings = wandb.Settings(init_timeout=START_TIMEOUT_S, console="off")
            run = wandb.init(
                project=config.wandb_project,
                name=folder.name,
                id=_run_id(folder),
                resume="allow",
                mode=mode,
                dir=str(folder),
                config=config.to_dict(),
                settings=settings,
            )
            return [WandbSink(run)]
        except Exception as e:  # An error of Weights & Biases must not end the run.
            then = f"wandb sync {folder}/wandb/offline-* sends its files later" if mode == "online" else ""
            why = " ".join(str(e).split())
            logger.warning(f"wandb: {mode} mode not started ({why}); {then or 'going on without it'}")
    return []


def _run_id(folder: Path) -> str:
    """Return the run's id in Weights & Biases, which a resumed run keeps, so that its curves continue."""
    file = folder / "wandb_id"
    if not file.exists():
        write_durably(file, f"{os.urandom(4).hex()}\n".encode())
    return file.read_text().strip()
