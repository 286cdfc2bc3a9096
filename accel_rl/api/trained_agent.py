"""The agent of a run, read from one of its checkpoints, and its evaluation."""

from contextlib import closing
from pathlib import Path
from typing import Any

from accel_rl.agents.base import Agent
from accel_rl.api.model_folder import ModelFolder
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.config.acting import acting_config
from accel_rl.config.train import TrainConfig
from accel_rl.config.types import fits
from accel_rl.envs.make import make_spec
from accel_rl.models.precision import multiply_in
from accel_rl.runners.best_agent import BestAgent
from accel_rl.runners.evaluation import Evaluation
from accel_rl.runners.evaluator import Evaluator
from accel_rl.runners.learner import load_agent
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.errors import ConfigError
from accel_rl.system.process import tune_torch


def read_state(run: RunFolder, chosen: str = "", best: bool = False) -> dict[str, Any] | None:
    """Read a checkpoint folder, the run's best network, or its newest checkpoint; None if there is none."""
    if best and chosen:
        raise ConfigError(f"--best and --checkpoint {chosen}: give one of the two")
    if best:
        return BestAgent(run.path).load()
    if chosen:
        return checkpoint.load(Path(chosen).expanduser())
    latest = Checkpoints(run.path / "checkpoints").load_latest()
    return latest[1] if latest else None


def read_agent(run: RunFolder, chosen: str = "", best: bool = False) -> dict[str, Any] | None:
    """The same, or the model if the folder has one instead (`accel-rl export`)."""
    if not chosen and ModelFolder(run.path).is_there:
        return ModelFolder(run.path).load()
    return read_state(run, chosen, best)


def trained_agent(
    run: RunFolder,
    config: TrainConfig,
    chosen: str,
    greedy: bool,
    best: bool = False,
    device: str = "",
    backend: str = "",
) -> tuple[TrainConfig, dict[str, Any], Agent, RankPlan]:
    """Return the settings for acting, the run's checkpoint, its agent for evaluation, and the plan of its placement.

    chosen: a checkpoint folder; "" for the newest. best: the network with the best evaluation instead. device,
    backend: see `acting_config`. ConfigError if there is no checkpoint.
    """
    config = acting_config(config, device, backend)
    state = read_agent(run, chosen, best)
    if state is None:
        raise ConfigError(f"{run.path} has no {'evaluation' if best else 'checkpoint'} yet")
    plan = RankPlan.acting(config)
    tune_torch(plan.placement.torch_threads)
    multiply_in("float32", plan.device)
    agent = load_agent(config, state, make_spec(config.env, training=True), plan.device)
    return config, state, agent.evaluating(greedy), plan


def evaluate(
    run: RunFolder,
    config: TrainConfig,
    *,
    seed: int,
    checkpoint: str = "",
    best: bool = False,
    device: str = "",
    backend: str = "",
) -> tuple[Evaluation, int]:
    """Evaluate a run's agent as `config.evaluation` says; returns the evaluation, and the agent's env steps.

    checkpoint, best, device, backend: see `trained_agent`. ConfigError.
    """
    if not fits(int, seed) or seed < 0:
        raise ConfigError(f"--seed {seed!r}: must be a whole number, 0 or more")
    config, state, agent, plan = trained_agent(run, config, checkpoint, config.evaluation.greedy, best, device, backend)
    with closing(Evaluator(config, plan)) as evaluator:
        result = evaluator.evaluate(agent, steps=config.evaluation.steps, seed=seed)
    assert result is not None
    return result, state["env_steps"]
