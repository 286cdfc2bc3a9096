"""The folder of an exported model: a network that others can evaluate, watch and load, without the run's checkpoints.

model.safetensors   the parameters by their names in the network
model.json          env steps, the evaluation, the agent's other state, the order of the parameters
config.json         the settings of the run, and protocol.json, versions.json, metrics.csv as in a run's folder
README.md           the card, with curve.png
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.checkpoints import tensor_file
from accel_rl.system.errors import ConfigError

FORMAT = "accel_rl model 1"


def check_new(path: Path, flag: str = "") -> None:
    """Raise ConfigError, naming the flag, if a model cannot be written into this folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{flag} {path} exists and is not an empty folder".strip())


class ModelFolder:
    def __init__(self, path: Path):
        self.path = path

    @property
    def is_there(self) -> bool:
        return (self.path / "model.safetensors").exists()

    def save(self, model: nn.Module, about: dict[str, Any], agent: dict[str, Any]) -> None:
        """Write a network. about: env_steps and the evaluation. agent: its `state_dict()`, of numbers and tensors."""
        from safetensors.torch import save_file  # with the metadata that model hubs read

        parameters = dict(model.named_parameters())
        others = {f"agent/{name}": x for name, x in agent.items() if isinstance(x, Tensor)}
        tensors = {name: x.detach().cpu().contiguous() for name, x in (parameters | others).items()}
        save_file(tensors, self.path / "model.safetensors", metadata={"format": "pt"})
        numbers = {name: x for name, x in agent.items() if not isinstance(x, Tensor)}
        values = {"format": FORMAT, **about, "agent": numbers, "parameters": list(parameters)}
        (self.path / "model.json").write_text(json.dumps(values, indent=1) + "\n")

    def about(self) -> dict[str, Any]:
        """Read model.json. ConfigError if it is not readable."""
        file = self.path / "model.json"
        try:
            values = dict(json.loads(file.read_text()))
        except (OSError, ValueError, TypeError) as e:
            raise ConfigError(f"{file} is not readable: {' '.join(str(e).split())}") from e
        if values.get("format") != FORMAT:
            raise ConfigError(
                f"{file} is no model of this program (format {values.get('format')!r}, wanted {FORMAT!r})"
            )
        return values

    def load(self) -> dict[str, Any]:
        """Return what `load_agent` needs of a checkpoint. ConfigError if the model is damaged."""
        values = self.about()
        try:
            tensors = tensor_file.load((self.path / "model.safetensors").read_bytes())
            flat: Tensor = torch.cat([tensors[name].flatten() for name in values["parameters"]])
            others = {name[6:]: x for name, x in tensors.items() if name.startswith("agent/")}
            agent = {"algo": {"agent": {**values["agent"], **others}}, "gradient_sync": {"parameters": flat}}
            return {"env_steps": int(values["env_steps"]), "evaluation": values["evaluation"], "learner": agent}
        except Exception as e:  # safetensors raises its own kinds
            raise ConfigError(f"{self.path / 'model.safetensors'} is not readable: {' '.join(str(e).split())}") from e
