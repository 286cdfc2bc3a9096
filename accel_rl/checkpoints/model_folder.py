"""The folder of an exported model contains a network that others can evaluate, watch and load without the run's
checkpoints.

| file | contents |
|---|---|
| model.safetensors | the network's parameters and buffers by name, and tensors of the agent's other state |
| model.json | env steps, the evaluation, tensors that were rounded to float16, the agent's other state |
| config.json | the settings of the run; also protocol.json, versions.json, metrics.csv as in a run's folder |
| launches.json | the launches of the run until these env steps, without names of hosts and folders |
| README.md | the card, with curve.png |
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from accel_rl.checkpoints import tensor_file
from accel_rl.checkpoints.saved_steps import FORMAT, about_model
from accel_rl.text.errors import ConfigError

_AGENT = "agent/"  # The names of the agent's tensors begin with `_AGENT`.


def check_new(path: Path, flag: str = "") -> None:
    """Raise ConfigError, with the flag in the message, if a model cannot be written into the folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{flag} {path} exists and is not an empty folder".strip())


class ModelFolder:
    def __init__(self, path: Path):
        self.path = path

    @property
    def is_there(self) -> bool:
        return (self.path / "model.safetensors").exists()

    def save(
        self, state: Mapping[str, Tensor], about: dict[str, Any], agent: dict[str, Any], float16: bool = False
    ) -> None:
        """`state` has the network's tensors by name (`network_state`). `about` has env_steps and the evaluation.
        `agent` is the agent's `state_dict()`, of numbers and tensors. With `float16`, float32 tensors of the network
        are rounded to float16. `ModelFolder.load` converts the rounded tensors back to float32."""
        network = {name: x.detach().cpu().clone() for name, x in state.items()}
        rounded = [name for name, x in network.items() if float16 and x.dtype == torch.float32]
        network |= {name: network[name].half() for name in rounded}
        others = {_AGENT + name: x.detach().cpu().clone() for name, x in agent.items() if isinstance(x, Tensor)}
        tensors = network | others
        data = tensor_file.save(tensors, {"format": "pt"})  # Model hubs read the format from the metadata.
        (self.path / "model.safetensors").write_bytes(data)
        numbers = {name: x for name, x in agent.items() if not isinstance(x, Tensor)}
        values = {"format": FORMAT, **about, "rounded": rounded, "agent": numbers}
        (self.path / "model.json").write_text(json.dumps(values, indent=1) + "\n")

    def about(self) -> dict[str, Any]:
        """The content of model.json. Raises ConfigError if the file is not readable."""
        return about_model(self.path)

    def load(self) -> dict[str, Any]:
        """The part of a checkpoint that `load_agent` needs. Raises ConfigError if the model is damaged."""
        values = self.about()
        try:
            tensors = tensor_file.load((self.path / "model.safetensors").read_bytes())
            agent = {**values["agent"], **{n.removeprefix(_AGENT): x for n, x in tensors.items() if _is_agents(n)}}
            network = {name: x for name, x in tensors.items() if not _is_agents(name)}
            network |= {name: network[name].float() for name in values.get("rounded", [])}
            learner = {"algo": {"agent": agent}, "network": network}
            return {"env_steps": int(values["env_steps"]), "evaluation": values["evaluation"], "learner": learner}
        except Exception as e:
            raise ConfigError(f"{self.path / 'model.safetensors'} is not readable: {' '.join(str(e).split())}") from e


def _is_agents(name: str) -> bool:
    return name.startswith(_AGENT)


def evaluation_at(run: Path, env_steps: int) -> dict[str, Any] | None:
    """The evaluation of the run in the folder `run` at `env_steps`, or None."""
    try:
        return dict(json.loads((run / "evaluations" / f"{env_steps:012d}.json").read_text()))
    except (OSError, ValueError):
        return None
