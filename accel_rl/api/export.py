"""Exports the network of a run as a model that other programs can load."""

import importlib.util
import logging
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.agents.agent import Agent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.agents.policy import CategoricalPolicyAgent, PolicyAgent
from accel_rl.api import model_card
from accel_rl.api.options import ExportOptions
from accel_rl.api.trained_agent import trained_agent
from accel_rl.checkpoints.model_folder import ModelFolder, check_new, evaluation_at
from accel_rl.files.durable_files import refuse_link
from accel_rl.kernels import native
from accel_rl.models.network_state import network_state
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError, RunError

COPIED = ("protocol.json", "versions.json", "metrics.csv")


def export(run: RunFolder, config: TrainConfig, o: ExportOptions) -> tuple[Path, dict[str, Any]]:
    """Return the model's folder, env steps and evaluation. Raises ConfigError for wrong settings, before any file is
    written, and RunError if the disk is full."""
    out = Path(o.out).expanduser() if o.out else run.path / "model"
    check_new(out, "--out")
    for name in COPIED:
        refuse_link(run.path / name, "its content would become a part of the model")
    acting, state, agent, _ = trained_agent(run, config, o.checkpoint, greedy=False, best=o.best)
    if o.onnx:
        check_onnx(agent)
    spec = acting.spec
    steps = state["env_steps"]
    about = {"env_steps": steps, "evaluation": state.get("evaluation") or evaluation_at(run.path, steps)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        RunFolder(out).write_json("config.json", replace(config, run_dir="").to_dict())
        for name in COPIED:
            if (run.path / name).exists():
                shutil.copyfile(run.path / name, out / name)
        recorded = launches.read(run)
        if of_model := [recorded[i] for i, _, _ in launches.parts(recorded, steps) if recorded]:
            RunFolder(out).write_json(launches.FILE, [{k: x[k] for k in launches.PUBLIC if k in x} for x in of_model])
        ModelFolder(out).save(network_state(agent.model), about, state["learner"]["algo"]["agent"], o.float16)
        if o.onnx:
            write_onnx(agent, spec.obs_shape, getattr(torch, spec.frame_dtype), out / "policy.onnx")
        model_card.write(out, config, about)
    except OSError as e:
        raise RunError(f"{out} could not be written: {e.strerror or e}") from e
    return out, about


class Preferences(nn.Module):
    """One number for each action [N, A] from obs [N, ...]: the logits of a policy, or action values. The greedy action
    is the action with the largest number."""

    def __init__(self, agent: Agent):
        super().__init__()
        self.model, self._agent = agent.model, agent

    def forward(self, obs: Tensor) -> Tensor:
        if isinstance(self._agent, CategoricalPolicyAgent):
            return self._agent.forward(obs)[0]
        if isinstance(self._agent, PolicyAgent):
            return self._agent.logits(obs)
        values: Tensor = self.model.q(obs, noise=False)  # type: ignore[operator]
        return values


def check_onnx(agent: Agent) -> None:
    """Raise ConfigError if the agent cannot be exported to ONNX, or if packages are missing."""
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed: pip install 'accel_rl[onnx]'")
    if agent.state_size:
        raise ConfigError("--onnx: a network with an LSTM is not supported")
    if not isinstance(agent, CategoricalPolicyAgent | PolicyAgent | EpsilonGreedyAgent):
        raise ConfigError(f"--onnx: an agent of the class {type(agent).__name__} is not supported")


def write_onnx(agent: Agent, obs_shape: tuple[int, ...], obs_dtype: torch.dtype, file: Path) -> None:
    """The ONNX input is `obs` [N, *obs_shape], and the output is `preferences` [N, A] as computed by `Preferences`."""
    network = Preferences(agent).eval()
    device = next(agent.model.parameters()).device
    example = torch.zeros((2, *obs_shape), dtype=obs_dtype, device=device)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # The log level suppresses warnings about unused operators.
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
