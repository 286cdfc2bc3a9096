"""accel_rl's algorithms, with weights, gradients and batches in a form that other libraries accept."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.algos.algorithm import Algorithm, advance, set_schedules
from accel_rl.data.rollout import Rollout
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters
from accel_rl.replays.ring import FrameRing, NStep, ReplayBatch
from tests.algos.streams import SPEC, B, Stream, act

T = 16
POLICY = {
    "body.layers.0": "policy.0", "body.layers.2": "policy.2", "heads.policy": "policy.4",
    "value_body.layers.0": "value.0", "value_body.layers.2": "value.2", "heads.value": "value.4",
}  # fmt: skip
"""Maps the layers of `ActorCritic` to their names in `policy_and_value`."""


class Ours:
    def __init__(self, cls: type[Algorithm], config: Any):
        torch.manual_seed(0)
        self.algo: Any = cls(config, SPEC, T=T, B=B)
        self.model: nn.Module = self.algo.agent.model
        self.flat = FlatParameters(self.model)
        with torch.no_grad():  # Add noise: small initial weights make all outputs nearly equal.
            self.flat.data += 0.05 * torch.randn(len(self.flat.data))
        set_schedules(self.algo)
        optimizer = self.algo.build_optimizer(len(self.flat.data))
        self._sync = Local(GuardedStep(self.flat, optimizer, self.algo.config.max_grad_norm))

    def weights(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def gradients(self) -> dict[str, Tensor]:
        """Return the clipped gradients that the latest call of `update` computed."""
        return {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}

    def update(self, batch: Any) -> float:

        loss = self.algo.loss(batch)
        self._sync.backward(loss.total)
        self._sync.step(self.algo.now.learning_rate, loss.total.detach())
        return float(loss.total.detach())

    def learn(self, rollout: Rollout) -> list[float]:

        advance(self.algo, rollout)
        self.algo.ingest(rollout)
        return [self.update(batch) for batch in self.algo.batches()]


def rollout(ours: Ours) -> Rollout:
    """Return a rollout with terminations and truncations, and with the agent's recorded values and
    log-probabilities."""
    made = Stream(T, rollouts=1, waits=False).rollout(0)
    act(ours.algo.agent, made, None)
    return made


def transitions(returns: NStep) -> tuple[ReplayBatch, Stream]:
    """Return a stream of experience, and the batch of all its transitions from a replay."""
    stream = Stream(T, rollouts=2, waits=False)
    ring = FrameRing(SPEC, B, size=4 * T * B, returns=returns)
    for k in range(stream.rollouts):
        ring.append(stream.rollout(k))
    low, high = ring.eligible
    cells = torch.arange(low * B, high * B)
    return ring.batch(cells[ring.sampleable(cells)]), stream


def policy_and_value(model: nn.Module) -> nn.ModuleDict:
    """Return copies of the policy and value networks of an `ActorCritic` with vector observations."""
    m: Any = copy.deepcopy(model)
    plain = lambda layers, head: nn.Sequential(*layers, _linear(head))  # noqa: E731
    return nn.ModuleDict(
        {"policy": plain(m.body.layers, m.heads.policy), "value": plain(m.value_body.layers, m.heads.value)}
    )


def _linear(head: nn.Linear) -> nn.Linear:
    made = nn.Linear(head.in_features, head.out_features)
    made.load_state_dict(head.state_dict())
    return made


def renamed(tensors: dict[str, Tensor], layers: dict[str, str]) -> dict[str, Tensor]:
    """Rename the tensors of a network: `layers` maps the network's layer names to those of another network."""
    return {
        f"{layers[layer]}.{kind}": x for (layer, _, kind), x in ((n.rpartition("."), x) for n, x in tensors.items())
    }


def of(parameters: Iterable[tuple[str, Tensor]], grad: bool = False) -> dict[str, Tensor]:
    return {name: (p.grad if grad else p).detach().clone() for name, p in parameters}  # type: ignore[union-attr]
