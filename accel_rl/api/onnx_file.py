"""The acting network is written as an ONNX file, for programs without torch."""

import importlib.util
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from accel_rl.agents.agent import Agent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.kernels import native
from accel_rl.system.errors import ConfigError


class Preferences(nn.Module):
    """`Preferences` computes a number for each action from obs [N, ...], as [N, A]: the logits of a policy, or action
    values. The greedy action is the action with the largest number."""

    def __init__(self, agent: Agent):
        super().__init__()
        self.model, self._is_policy = agent.model, isinstance(agent, CategoricalPolicyAgent)

    def forward(self, obs: Tensor) -> Tensor:
        if self._is_policy:
            logits: Tensor = self.model(obs)[0]
            return logits
        values: Tensor = self.model.q(obs, noise=False)  # type: ignore[operator]
        return values


def check(agent: Agent) -> None:
    """Raise ConfigError if the agent cannot be written as ONNX, or if packages are missing."""
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed: pip install 'accel_rl[onnx]'")
    if agent.state_size:
        raise ConfigError("--onnx: a network with an LSTM is not supported")
    if not isinstance(agent, CategoricalPolicyAgent | EpsilonGreedyAgent):
        raise ConfigError(f"--onnx: an agent of the class {type(agent).__name__} is not supported")


def write(agent: Agent, obs_shape: tuple[int, ...], obs_dtype: torch.dtype, file: Path) -> None:
    """Write the network as ONNX. The ONNX input is `obs` [N, *obs_shape], and the output is `preferences` [N, A] as
    computed by `Preferences`."""
    network = Preferences(agent).eval()
    device = next(agent.model.parameters()).device
    example = torch.zeros((2, *obs_shape), dtype=obs_dtype, device=device)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # The log level hides warnings about unused operators.
    with torch.no_grad(), native.left_out(), warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            network,
            (example,),
            str(file),
            input_names=["obs"],
            output_names=["preferences"],
            dynamic_shapes=({0: torch.export.Dim("N")},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
