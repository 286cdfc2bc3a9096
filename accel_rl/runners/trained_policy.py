"""Parameters of a trained agent for one that only acts: sampling benchmarks run a trained policy."""

from pathlib import Path
from typing import Any

from torch.nn.utils import vector_to_parameters

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.system.errors import ConfigError


def check_policy(flag: str, run: str) -> None:
    """ConfigError, naming the flag, where the folder holds no checkpoint of a run."""
    if not Checkpoints(Path(run).expanduser() / "checkpoints").steps():
        raise ConfigError(f"{flag} {run}: there is no checkpoint of a run in this folder")


def load_policy(agent: Any, run: str) -> None:
    """Give an agent the parameters of the run's newest checkpoint. ConfigError for another network."""
    found = Checkpoints(Path(run).expanduser() / "checkpoints").load_latest()
    if found is None:
        raise ConfigError(f"{run}: there is no checkpoint of a run in this folder")
    parameters = found[1]["learner"]["gradient_sync"]["parameters"]
    size = sum(p.numel() for p in agent.model.parameters())
    if len(parameters) != size:
        raise ConfigError(f"{run}: its network has {len(parameters):,} parameters, the one to act with {size:,}")
    device = next(agent.model.parameters()).device
    vector_to_parameters(parameters.to(device), agent.model.parameters())
