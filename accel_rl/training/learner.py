"""The learner of a run consists of the algorithm, flat parameters, optimizer and gradient synchronization."""

import logging
from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from typing import Any

import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.algos.algorithm import Algorithm, set_schedules
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator, average_buffers
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.machine.devices import Device
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.models.network_state import has_modes, load_network, network_state, statistics, training_mode
from accel_rl.models.precision import autocast_for
from accel_rl.ops.q_learning import spread_powers
from accel_rl.optim.flat import FlatParameters, l2_norm
from accel_rl.optim.torch_optimizer import uncapturable
from accel_rl.settings.doors import find_gradient_sync
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.resolved import Resolved, ResolvedSampler
from accel_rl.speed.captured_updates import CapturedUpdates, ScheduledTensors
from accel_rl.text.errors import ConfigError
from accel_rl.training.context import Exchange
from accel_rl.training.seeds import own_generator
from accel_rl.training.stored_agents import agent_state

logger = logging.getLogger(__name__)


class Learner:
    """A network with its algorithm and optimizer."""

    def __init__(self, config: Resolved, spec: EnvSpec, device: str, seed: int, exchange: Exchange | None = None):
        """`exchange` connects the learner to the learners of other ranks; None means a single rank."""
        device, exchange = Device(device), exchange or Exchange()
        torch.manual_seed(seed)
        self.algo = build_algorithm(config, spec, device, exchange.communicator)
        self._has_modes = has_modes(self.algo.agent.model)
        self._has_statistics = bool(statistics(self.algo.agent.model))
        self.flat = FlatParameters(self.algo.agent.model)
        set_schedules(self.algo)
        self.gradient_sync: GradientSync
        if name := config.distributed.sync_class:
            self.gradient_sync = find_gradient_sync(name)(self.flat, self.algo, exchange.communicator)
        else:
            self.gradient_sync = exchange.gradient_sync(self.flat, self.algo)
        self.updates = 0
        self.norms = config.log.norms
        self.precision = config.precision
        self._queues_work = device.queues_work
        self._captured: CapturedUpdates | None = None
        if device.queues_work and exchange.captures_updates:
            why = uncapturable(config.algo.optimizer) if config.capture_updates else "--no-capture-updates"
            self._captured = CapturedUpdates(self.algo, self.update, why)

    def ingest(self, rollout: Rollout) -> None:
        (self._captured or self.algo).ingest(rollout)

    def learn(
        self, between: Callable[[], None] = lambda: None, pause: Callable[[], bool] = lambda: False
    ) -> list[UpdateMetrics]:
        """Make the updates of a learning phase without synchronizing with a GPU. `between` is called after each update.
        The learning phase ends early if `pause`, called after each update, returns True."""
        all_metrics: list[UpdateMetrics] = []
        updates = 0
        # A network that behaves the same in training and eval mode always stays in eval mode.
        # Switching between the two modes would take at least 20 microseconds.
        mode = training_mode(self.algo.agent.model) if self._has_modes else nullcontext()
        with mode, closing(self._phase()) as phase:
            for metrics in phase:
                updates += 1
                all_metrics += metrics
                between()
                if pause():
                    break
        self.updates += updates
        if updates:
            with autocast_for(self.precision, self.algo.device):
                self.algo.after_phase()
        if self._captured is not None:
            all_metrics = self._captured.metrics()
        if updates and self._has_statistics:
            average_buffers(statistics(self.algo.agent.model), self.algo.communicator)
        self.gradient_sync.skips.show()
        return all_metrics

    def _phase(self) -> Generator[list[UpdateMetrics]]:
        """Yield a list with the metrics of each update, or an empty list if a GPU sums the metrics."""
        if self._captured is not None:
            for _ in self._captured.phase():
                yield []
        else:
            if self._queues_work and not self.updates:
                logger.info(
                    "updates are not captured as CUDA graphs, Python runs for each of them: "
                    "ranks exchange them on the host"
                )
            for batch in self.algo.batches():
                yield [UpdateMetrics.of(self.update(batch))]

    def update(self, batch: Any, algo: Algorithm | None = None) -> dict[str, Tensor]:
        """Make one update on a batch. Returns the metrics as scalars []. During a capture, `algo` replaces the
        algorithm, to record which attributes the update reads."""
        algo = algo or self.algo
        if not algo.on_policy:
            self.gradient_sync.pull()
        with autocast_for(self.precision, algo.device):
            loss = algo.loss(batch)
        before = self.flat.data.clone() if self.norms else None
        grad_norm = self.gradient_sync.update(loss.total, loss.samples, algo.now.learning_rate)
        algo.after_update(batch, loss)
        norms = {"grad_norm": grad_norm, **self._norms(before)}
        if twice := norms.keys() & loss.metrics.keys():
            raise ConfigError(f"metric {min(twice)!r}: every update has a metric of this name; give the metric another")
        return {**loss.metrics, **norms}

    def columns(self) -> dict[str, float]:
        """Current values of the schedules, and the algorithm's own columns, for a row of metrics."""
        now = self.algo.now
        of_replay = self.algo.columns() if isinstance(self.algo, ReplayAlgorithm) else {}
        return {**self.algo.schedules(now.progress, now.env_steps), **of_replay}

    def close(self) -> None:
        """Free captured updates, before the process group is destroyed."""
        if self._captured is not None:
            self._captured.close()

    def _norms(self, before: Tensor | None) -> dict[str, Tensor]:
        """L2 norms of each layer's parameters, clipped gradient and step (Stooke & Abbeel 2018, appendix C)."""
        if before is None:
            return {}
        norms = {"param_norm": l2_norm(self.flat.data)}
        for name, part in self.flat.layers():
            norms[f"param_norm/{name}"] = l2_norm(self.flat.data[part])
            norms[f"grad_norm/{name}"] = l2_norm(self.flat.grad[part])
            norms[f"step_norm/{name}"] = l2_norm(self.flat.data[part] - before[part])
        return norms

    # -- checkpoints ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The network's tensors by name, and the optimizer's flat vectors, whose elements are in the order of
        `layout`."""
        sync = self.gradient_sync.state_dict()
        return {
            "algo": self.algo.state_dict(),
            **self.trained_state(sync),
            "updates": self.updates,
            "env_steps": self.algo.now.env_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ConfigError, with a message of one line, if the state belongs to another network or optimizer."""
        self.load_trained(state)
        self.algo.load_state_dict(state["algo"])
        self.updates = state["updates"]
        self.algo.now.env_steps = state["env_steps"]

    def trained_state(self, sync: dict[str, Any]) -> dict[str, Any]:
        """The network and the optimizer, for a checkpoint. `sync` is the state of the gradient synchronization, whose
        `parameters` [P] replace this process's parameters."""
        others = {name: x for name, x in sync.items() if name != "parameters"}
        return {"network": self.network(sync["parameters"]), "gradient_sync": others, "layout": self.flat.layout()}

    def load_trained(self, state: dict[str, Any]) -> None:
        """Raises ConfigError, with a message of one line, if the state belongs to another network or optimizer."""
        load_network(self.algo.agent.model, state["network"], "the checkpoint")
        sync = {**state["gradient_sync"], "parameters": self.flat.vector(state["network"])}
        try:
            if (order := self.flat.order(state["layout"])) is not None:
                sync = _reordered(sync, order)
        except ValueError as e:
            raise ConfigError(str(e)) from e
        self.gradient_sync.load_state_dict(sync)

    def network(self, parameters: Tensor | None = None) -> dict[str, Tensor]:
        """The network's tensors by name. `parameters` [P] replace the trained parameters in the result."""
        state = network_state(self.algo.agent.model)
        return state if parameters is None else {**state, **self.flat.by_name(parameters)}

    def agent_state(self) -> dict[str, Any]:
        """The part of the state that `load_agent` needs."""
        return agent_state(self.algo.agent.state_dict(), self.network())


def _reordered(sync: dict[str, Any], order: Tensor) -> dict[str, Any]:
    """Reorder the optimizer's vectors [P]. Raises ValueError if the chunks of the parameters were updated different
    numbers of times."""
    moved: dict[str, Any] = {}
    for name, x in sync.get("optimizer", {}).items():
        if isinstance(x, Tensor):
            moved[name] = x[order] if x.shape == order.shape else x
        # The list of optimizer states has one entry per chunk or shard of the parameters.
        elif isinstance(x, list) and len(set(x)) > 1:
            raise ValueError(f"the network's layers are in another order, and {name} of the optimizer is {x} by parts")
        else:
            moved[name] = x
    return {**sync, **({"optimizer": moved} if moved else {})}


def build_algorithm(
    config: Resolved, spec: EnvSpec, device: str, communicator: Communicator = SINGLE_PROCESS
) -> Algorithm:
    cls: type[Algorithm] = find_algorithm(config.algorithm)
    c: Any = config.algo
    sampler = config.sampler
    algo = cls(c, spec, T=config.T, B=sampler.envs, device=device)
    algo.communicator = communicator
    if Device(device).queues_work:
        algo.now = ScheduledTensors(algo.device)
    agent = algo.agent
    shares = isinstance(sampler, ResolvedSampler) and sampler.run_envs
    if shares and isinstance(agent, EpsilonGreedyAgent) and agent.powers is not None:
        # The environments of all ranks share one range of epsilons (Horgan et al. 2018).
        agent.spread(spread_powers(c.epsilon_spread, sampler.first_env, algo.B, sampler.run_envs, algo.device))
    return algo


def load_agent(config: Resolved, state: dict[str, Any], spec: EnvSpec, device: str = "cpu") -> Agent:
    """The agent of a checkpoint, for evaluation and videos. The caller's random generators do not change. Raises
    ConfigError, with a message of one line, if the checkpoint belongs to another network."""
    with own_generator(device, seed=0):
        agent = build_algorithm(config, spec, device).agent
    load_network(agent.model, state["learner"]["network"], "the saved network")
    agent.load_state_dict(state["learner"]["algo"]["agent"])
    return agent
