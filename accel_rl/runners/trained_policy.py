"""Loads trained parameters into an agent that only acts, for sampling benchmarks with a trained policy."""

from pathlib import Path
from typing import Any

from torch.nn.utils import vector_to_parameters

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.system.errors import ConfigError


def check_policy(flag: str, run: str) -> None:
    """Raise ConfigError, naming the flag, if the folder holds no checkpoint of a run."""
    if not Checkpoints(Path(run).expanduser() / "checkpoints").steps():
        raise ConfigError(f"{flag} {run}: there is no checkpoint of a run in this folder")


def load_policy(agent: Any, run: str) -> None:
    """Load the parameters of the run's newest checkpoint into an agent. ConfigError if the networks differ in size."""
    found = Checkpoints(Path(run).expanduser() / "checkpoints").load_latest()
    if found is None:
        raise ConfigError(f"{run}: there is no checkpoint of a run in this folder")
    parameters = found[1]["learner"]["gradient_sync"]["parameters"]
    size = sum(p.numel() for p in agent.model.parameters())
    if len(parameters) != size:
        raise ConfigError(f"{run}: its network has {len(parameters):,} parameters, the agent's network has {size:,}")
    device = next(agent.model.parameters()).device
    vector_to_parameters(parameters.to(device), agent.model.parameters())
