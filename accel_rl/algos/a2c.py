"""Advantage actor-critic, batched and synchronous (Mnih et al. 2016; Stooke & Abbeel 2018, sections 3.1 and 5.3)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from accel_rl.agents.categorical import CategoricalPolicyAgent
from accel_rl.algos.base import Algorithm, AlgorithmConfig, Loss, require
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.ops.policy_gradient import entropy, log_prob, masked_mean
from accel_rl.ops.returns import generalized_advantage
from accel_rl.optim.rules import Adam, RMSProp, Rule


@dataclass(frozen=True)
class A2CConfig(AlgorithmConfig):
    """Defaults: Stooke & Abbeel 2018, section 5.3, and their published code."""

    learning_rate: float = 7e-4
    """Step size at the reference batch (Stooke & Abbeel 2018, section 5.3: 7e-4)."""
    learning_rate_scaling: Literal["sqrt", "none"] = "sqrt"
    """Growth of the step size with the batch: its square root, or none (section 5.3: sqrt)."""
    reference_batch: int = 80
    """Batch, in samples, to which learning_rate belongs (16 environments x 5 steps)."""
    max_learning_rate: float = 3e-3
    """Scaling stops here (section 5.3: 3e-3)."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """Linear: down to zero at the end of the run (Mnih et al. 2016); constant (Stooke & Abbeel)."""
    gamma: float = 0.99
    """Discount per agent step (Mnih et al. 2015)."""
    gae_lambda: float = 1.0
    """Exponential weighting of the advantage (Schulman et al. 2016); 1 is the n-step return of A3C."""
    value_coefficient: float = 0.25
    """Weight of the squared value error, written without 1/2 (Stooke & Abbeel's code: 0.25)."""
    entropy_coefficient: float = 0.01
    """Weight of the policy's entropy in nats (Mnih et al. 2016: 0.01)."""
    clip_grad_norm: float = 0.5
    """Largest L2 norm of the gradient of all parameters (Stooke & Abbeel's code: 0.5)."""
    reward_clip: float = 1.0
    """Rewards are clipped to +- this for learning, never in scores; 0: not at all (Mnih et al. 2015: 1)."""
    rule: Literal["rmsprop", "rmsprop-torch", "adam"] = "rmsprop"
    """Update rule. RMSProp has its epsilon inside the root (the first A2C codes) or, rmsprop-torch, outside."""
    rule_decay: float = 0.99
    """RMSProp's memory of squared gradients (Mnih et al. 2016: 0.99)."""
    rule_epsilon: float = 1e-5
    """The rule's epsilon (OpenAI baselines' A2C: 1e-5)."""

    def check(self) -> None:
        positive, share = "above 0", "between 0 and 1"
        require(
            self,
            learning_rate=(0 < self.learning_rate < math.inf, positive),
            max_learning_rate=(0 < self.max_learning_rate < math.inf, positive),
            reference_batch=(self.reference_batch > 0, positive),
            gamma=(0 <= self.gamma <= 1, share),
            gae_lambda=(0 <= self.gae_lambda <= 1, share),
            value_coefficient=(0 <= self.value_coefficient < math.inf, "0 or more"),
            entropy_coefficient=(0 <= self.entropy_coefficient < math.inf, "0 or more"),
            clip_grad_norm=(self.clip_grad_norm > 0, positive),
            reward_clip=(self.reward_clip >= 0, "0 or more"),
            rule_decay=(0 <= self.rule_decay < 1, "at least 0 and below 1"),
            rule_epsilon=(0 < self.rule_epsilon < math.inf, positive),
        )


@dataclass(slots=True)
class PolicyBatch:
    """N samples: obs [N, ...], action [N] int64; advantage, target (of the value) [N]; valid [N] bool, None: all."""

    obs: Tensor
    action: Tensor
    advantage: Tensor
    target: Tensor
    valid: Tensor | None


class A2C(Algorithm):
    """One update per rollout, on all of it."""

    Config = A2CConfig
    sampling = {"envs": 16, "horizon": 5}  # noqa: RUF012  Stooke & Abbeel 2018, section 5.3

    agent: CategoricalPolicyAgent

    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(ActorCritic(spec))

    def build_rule(self, size: int) -> Rule:
        c, device = self.config, str(self.device)
        if c.rule == "adam":
            return Adam(size, epsilon=c.rule_epsilon, device=device)
        return RMSProp(size, c.rule_decay, c.rule_epsilon, epsilon_inside=c.rule == "rmsprop", device=device)

    @property
    def learning_rate(self) -> float:
        c = self.config
        rate = c.learning_rate
        if c.learning_rate_scaling == "sqrt":
            rate = min(rate * math.sqrt(self.T * self.B / c.reference_batch), max(rate, c.max_learning_rate))
        return rate * (1 - self.progress) if c.learning_rate_schedule == "linear" else rate

    @property
    def max_grad_norm(self) -> float | None:  # type: ignore[override]
        return self.config.clip_grad_norm

    def ingest(self, rollout: Rollout) -> None:
        c = self.config
        value = rollout.recorded["value"]
        reward = rollout.reward.clamp(-c.reward_clip, c.reward_clip) if c.reward_clip else rollout.reward
        discount = c.gamma * (~rollout.terminated).float()
        bootstrap = self.agent.value(rollout.observations(rollout.T))  # V(s_T) [B]
        next_value = self._next_value(rollout, value, bootstrap)
        self.advantage = generalized_advantage(
            reward, value, discount, bootstrap, next_value, c.gae_lambda, cut=rollout.truncated
        )
        self.rollout = rollout

    def _next_value(self, rollout: Rollout, value: Tensor, bootstrap: Tensor) -> Tensor:
        """V(s_{t+1}) [T, B]; where a time limit struck, of the observation it struck at, not of the next episode's."""
        next_value = torch.cat([value[1:], bootstrap[None]])
        t, b = torch.nonzero(rollout.truncated & ~rollout.terminated, as_tuple=True)
        if len(t):
            next_value[t, b] = self.agent.value(rollout.final_observation(t, b))
        return next_value

    def batches(self) -> Iterator[PolicyBatch]:
        r = self.rollout
        advantage = self.advantage.reshape(-1)
        yield PolicyBatch(
            obs=r.observations(0, r.T),
            action=r.action.reshape(-1),
            advantage=advantage,
            target=advantage + r.recorded["value"].reshape(-1),
            valid=None if bool(r.valid.all()) else r.valid.reshape(-1),
        )

    def loss(self, batch: PolicyBatch) -> Loss:
        """-E[log pi(a|s) A] + c_v E[(R - V)^2] - c_e E[H(pi)], Mnih et al. 2016, section 4."""
        logits, value = self.agent.model(batch.obs)
        policy_loss = -masked_mean(log_prob(logits, batch.action) * batch.advantage, batch.valid)
        value_loss = masked_mean((batch.target - value).square(), batch.valid)
        policy_entropy = masked_mean(entropy(logits), batch.valid)
        c = self.config
        total = policy_loss + c.value_coefficient * value_loss - c.entropy_coefficient * policy_entropy
        return Loss(
            total,
            {
                "loss": total.detach(),
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": policy_entropy.detach(),
                "value": masked_mean(value.detach(), batch.valid),
            },
        )
