"""Reads the agent of a run from a checkpoint, and evaluates it. A `TrainedPolicy` lets the agent act in the user's own
program."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.api.options import EvaluateOptions, WatchOptions
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.data.rollout import RnnState
from accel_rl.data.spec import EnvSpec
from accel_rl.models.precision import multiply_in
from accel_rl.planning.plan import RankPlan
from accel_rl.processes.process import tune_torch
from accel_rl.run import video
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.acting import acting_config
from accel_rl.settings.resolved import Resolved
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.notes import say_once
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.evaluator import Evaluator, evaluate_random
from accel_rl.training.learner import load_agent
from accel_rl.training.stored_agents import BestAgent


def read_state(run: RunFolder, chosen: str = "", best: bool = False) -> dict[str, Any] | None:
    """Read the checkpoint in the folder `chosen`, the best network, or the newest checkpoint. Return None if the run
    has no checkpoint."""
    if best and chosen:
        raise ConfigError(f"--best and --checkpoint {chosen}: give one of the two")
    if best:
        return BestAgent(run).load()
    if chosen:
        return checkpoint.load(Path(chosen).expanduser())
    latest = Checkpoints(run.path / "checkpoints").load_latest()
    return latest[1] if latest else None


def read_agent(run: RunFolder, chosen: str = "", best: bool = False) -> dict[str, Any] | None:
    """Do the same as `read_state`, but if the folder contains an exported model, read the model."""
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
) -> tuple[Resolved, dict[str, Any], Agent, RankPlan]:
    """Return the settings for acting, the run's checkpoint, the agent that the checkpoint contains (in evaluation
    mode), and the plan for the placement of this agent.

    `chosen` is a checkpoint folder, or "" for the newest checkpoint. With `best`, the network with the best evaluation
    replaces that of the newest checkpoint. The function `acting_config` explains `device` and `backend`. Raises
    ConfigError if the run has no checkpoint.
    """
    config = acting_config(config, device, backend)
    state = read_agent(run, chosen, best)
    if state is None:
        raise ConfigError(f"{run.path} has no {'evaluation' if best else 'checkpoint'} yet")
    plan = RankPlan.acting(config)
    tune_torch(plan.placement.torch_threads)
    multiply_in("float32", plan.device)
    agent = load_agent(config, state, config.spec, plan.device)
    return config, state, agent.evaluating(greedy), plan


def evaluate(run: RunFolder, config: TrainConfig, o: EvaluateOptions) -> tuple[Evaluation, dict[str, Any]]:
    """Evaluate the agent, or random actions. Return the evaluation and {env_steps, agent} of the evaluated agent.
    Raises ConfigError."""
    o.check()
    if not o.episodes and o.steps == EvaluateOptions.steps:
        say_once(f"--episodes 0: the evaluation lasts {o.steps:,} env steps (--steps)")
    if o.save:
        run.check_parts()
    config = _with_options(config, o)
    result, of_agent = _random(config, o) if o.random else _trained(run, config, o)
    outcome = {**of_agent, **result.to_dict()}
    if o.save:
        name = ("random-" if o.random else "") + config.evaluation.starts
        run.write_json(f"final/{name}.json", outcome)
    if o.json:
        Path(o.json).write_text(json.dumps(outcome, indent=1) + "\n")
    return result, of_agent


def _with_options(config: TrainConfig, o: EvaluateOptions) -> TrainConfig:
    evaluation = replace(
        config.evaluation,
        episodes=o.episodes,
        steps=o.steps,
        greedy=o.greedy,
        parallel=o.parallel,
        starts=o.starts or config.evaluation.starts,
    )
    if o.starts_file:
        evaluation = replace(evaluation, starts_file=o.starts_file)
    elif evaluation.starts == "noop":
        evaluation = replace(evaluation, starts_file="")
    return replace(config, evaluation=evaluation)


def _trained(run: RunFolder, config: TrainConfig, o: EvaluateOptions) -> tuple[Evaluation, dict[str, Any]]:
    greedy, backend = config.evaluation.greedy, o.env.backend
    config, state, agent, plan = trained_agent(run, config, o.checkpoint, greedy, o.best, o.device, backend)
    with closing(Evaluator(config, plan)) as evaluator:
        result = evaluator.evaluate(agent, steps=config.evaluation.steps, seed=o.seed)
    assert result is not None
    name = o.checkpoint or ("best" if o.best else "newest")
    return result, {"env_steps": state["env_steps"], "agent": name}


def _random(config: TrainConfig, o: EvaluateOptions) -> tuple[Evaluation, dict[str, Any]]:
    config = acting_config(config, o.device, o.env.backend)
    result = evaluate_random(config, RankPlan.acting(config), steps=o.steps, seed=o.seed)
    return result, {"env_steps": 0, "agent": "random"}


def watch(run: RunFolder, config: TrainConfig, o: WatchOptions) -> tuple[Path, int, video.FilmedEpisode]:
    """Return the video's file, its number of pictures and the episode. Raises ConfigError."""
    o.check()
    if o.game and o.game not in (games := config.env.games):
        raise ConfigError(
            f"--game {o.game}: the agent plays {config.env.game or config.env.id}{nearest(o.game, games)}"
        )
    config = replace(config, env=replace(config.env, game=o.game or (*config.env.games, "")[0]))
    config, state, agent, _ = trained_agent(run, config, o.checkpoint, o.greedy, o.best, o.device, o.env.backend)
    out = Path(o.out).expanduser() if o.out else video.default_path(run.path, state["env_steps"])
    episode = video.FilmedEpisode(config, agent, o.seed, o.steps)
    return out, video.write(episode.pictures(), out, episode.fps), episode


X = TypeVar("X", np.ndarray, Tensor)


class TrainedPolicy:
    """Selects actions as in an evaluation. The state of an LSTM is stored until `reset` is called."""

    def __init__(self, agent: Agent, spec: EnvSpec, seed: int = 0):
        """`agent` is an agent for evaluation. `spec` describes the environment: an observation has the shape
        `spec.obs_shape`, such as [4, 104, 80] (frames, oldest first)."""
        self.agent, self.obs_shape = agent, spec.obs_shape
        self._bounds = torch.tensor([spec.low, spec.high]) if spec.low else None
        self._dtype: torch.dtype = getattr(torch, spec.frame_dtype)
        self._device = next((p.device for p in agent.model.parameters()), torch.device("cpu"))
        self._random = torch.Generator().manual_seed(seed)
        self._state: Tensor | None = None  # `_state` is the state of an LSTM [N, Z].

    def reset(self) -> None:
        """Reset the state of an LSTM. `reset` must be called when new episodes begin."""
        self._state = None

    def act(self, obs: X, first: Any = None, reward: Any = None) -> X:
        """Select actions [N] or [] int64 for observations `obs` [N, ...] or [...], which are arrays or tensors. Actions
        of several numbers are [N, D] or [D], clipped to the environment's bounds.

        For an LSTM, `first` [N] bool marks the environments whose episode begins with the given observation, and for
        r2d2, `reward` [N] are the rewards of the last actions. Raises ValueError for a wrong shape, for images whose
        type is not that of training, and if r2d2 gets no rewards. Vectors may have any numeric type.
        """
        x = self._checked(torch.as_tensor(obs))
        single = x.dim() == len(self.obs_shape)
        x = x.unsqueeze(0) if single else x
        if tuple(x.shape[1:]) != self.obs_shape:
            raise ValueError(f"observations of shape {list(x.shape[1:])}; the agent was trained on {self.obs_shape}")
        uniform = torch.rand(len(x), generator=self._random).to(self._device)
        with torch.no_grad():
            action, _ = self.agent.act(x.to(self._device), uniform, self._memory(len(x), first, reward))
        if self._bounds is not None:
            action = action.clamp(*self._bounds.to(action.device))
        action = action.cpu()[0] if single else action.cpu()
        return action.numpy() if isinstance(obs, np.ndarray) else action

    def _checked(self, x: Tensor) -> Tensor:
        """Convert observations to the dtype with which the agent was trained; bool pictures become 0 and 255. Raises
        ValueError for any other dtype of pictures."""
        if x.dtype == torch.bool and self._dtype == torch.uint8:
            return x.to(torch.uint8) * 255
        numeric = self._dtype == torch.float32 and (x.is_floating_point() or len(self.obs_shape) == 1)
        if x.dtype != self._dtype and not numeric:
            name, trained = (str(dtype).removeprefix("torch.") for dtype in (x.dtype, self._dtype))
            range = ", 0 to 255" * (trained == "uint8")
            raise ValueError(f"observations of {name}; the agent was trained on pictures of {trained}{range}")
        return x.to(self._dtype)

    def _memory(self, n: int, first: Any, reward: Any) -> RnnState | None:
        if not self.agent.state_size:
            return None
        begins = torch.zeros(n, dtype=torch.bool) if first is None else torch.as_tensor(first).reshape(n)
        if self._state is None or len(self._state) != n:
            self._state = torch.zeros(n, self.agent.state_size, device=self._device)
            begins = torch.ones(n, dtype=torch.bool)
        if getattr(self.agent, "reads_reward", False):
            if reward is None and not begins.all():
                raise ValueError("the agent reads its last reward: give act(obs, first, reward)")
            self._state[:, -1] = 0 if reward is None else torch.as_tensor(reward).reshape(n)
        return RnnState(self._state, begins.unsqueeze(0).to(self._device))
