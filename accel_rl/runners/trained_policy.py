"""Loads trained parameters into an agent that only acts, for sampling benchmarks with a trained policy."""

from pathlib import Path
from typing import Any

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.models.network_state import load_network
from accel_rl.system.errors import ConfigError


def check_policy(flag: str, run: str) -> None:
    """Raise ConfigError, naming the flag, if the folder holds no checkpoint of a run."""
    if not Checkpoints(Path(run).expanduser() / "checkpoints").steps():
        raise ConfigError(f"{flag} {run}: there is no checkpoint of a run in this folder")


def load_policy(agent: Any, run: str) -> None:
    """Load the parameters of the run's newest checkpoint into an agent. ConfigError if the networks differ."""
    found = Checkpoints(Path(run).expanduser() / "checkpoints").load_latest()
    if found is None:
        raise ConfigError(f"{run}: there is no checkpoint of a run in this folder")
    load_network(agent.model, found[1]["learner"]["network"], run)
