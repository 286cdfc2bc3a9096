"""This module exports the network of a run as a model that other programs can load."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from accel_rl.api import model_card, onnx_file
from accel_rl.api.model_folder import ModelFolder, check_new
from accel_rl.api.options import ExportOptions
from accel_rl.api.trained_agent import trained_agent
from accel_rl.config.train import TrainConfig
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.errors import RunError

COPIED = ("protocol.json", "versions.json", "metrics.csv")


def export(run: RunFolder, config: TrainConfig, o: ExportOptions) -> tuple[Path, dict[str, Any]]:
    """Write the folder of a model (`ModelFolder`). Return the model's folder, env steps and evaluation. Raises
    ConfigError for wrong settings, before any file is written. Raises RunError if the disk is full."""
    out = Path(o.out).expanduser() if o.out else run.path / "model"
    check_new(out, "--out")
    acting, state, agent, _ = trained_agent(run, config, o.checkpoint, greedy=False, best=o.best)
    if o.onnx:
        onnx_file.check(agent)
    spec = acting.spec
    steps = state["env_steps"]
    about = {"env_steps": steps, "evaluation": state.get("evaluation") or _evaluation(run, steps)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        RunFolder(out).write_json("config.json", replace(config, run_dir="").to_dict())
        for name in COPIED:
            if (run.path / name).exists():
                shutil.copyfile(run.path / name, out / name)
        ModelFolder(out).save(agent.model, about, state["learner"]["algo"]["agent"], o.float16)
        if o.onnx:
            onnx_file.write(agent, spec.obs_shape, getattr(torch, spec.frame_dtype), out / "policy.onnx")
        model_card.write(out, config, about)
    except OSError as e:
        raise RunError(f"{out} could not be written: {e.strerror or e}") from e
    return out, about


def _evaluation(run: RunFolder, env_steps: int) -> dict[str, Any] | None:
    """Read a run's evaluation at `env_steps`, or return None if there is none."""
    try:
        return dict(json.loads((run.path / "evaluations" / f"{env_steps:012d}.json").read_text()))
    except (OSError, ValueError):
        return None
