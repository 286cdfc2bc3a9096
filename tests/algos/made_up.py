"""Rollouts of random frames, and one update of an algorithm on such a rollout."""

import torch

from accel_rl.algos.algorithm import advance
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.ops.policy_loss import log_prob

T, B, S = 5, 6, 4
SHAPE = (40, 36)  # The network `dqn` needs pictures of at least 36 x 36.
SPEC = EnvSpec("test", SHAPE, "uint8", 4, S, protocol={"frame_skip": 4})


def rollout(seed=0, truncations=True, invalid=False, T=T, B=B):
    g = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (S - 1 + T + 1, B, *SHAPE), dtype=torch.uint8, generator=g)
    flag = lambda p: torch.rand(T, B, generator=g) < p  # noqa: E731
    terminated = flag(0.2)
    truncated = flag(0.2) & ~terminated if truncations else torch.zeros(T, B, dtype=torch.bool)
    ended = truncated | terminated
    age = torch.full((T + 1, B), S - 1, dtype=torch.uint8)
    for t in range(T):
        age[t + 1] = torch.where(ended[t], torch.zeros(B, dtype=torch.uint8), (age[t] + 1).clamp(max=S - 1))
    return Rollout(
        frames=frames,
        final_frames=torch.randint(0, 256, (T, B, *SHAPE), dtype=torch.uint8, generator=g),
        age=age,
        action=torch.randint(0, 4, (T, B), generator=g),
        reward=3 * torch.randn(T, B, generator=g),
        terminated=terminated,
        truncated=truncated,
        ended=ended,
        valid=~flag(0.3) if invalid else torch.ones(T, B, dtype=torch.bool),
        stack=S,
    )


def act_over(algo, r):
    """Write the agent's values, and the log-probabilities of the rollout's random actions, into the rollout."""
    with torch.no_grad():
        logits, value, _ = algo.agent.forward(r.observations(0, r.T))
    r.recorded["value"] = value.view(r.T, r.B)
    r.recorded["log_prob"] = log_prob(logits, r.action.reshape(-1)).view(r.T, r.B)


def ingest(algo, r):
    """Pass a rollout to the algorithm as the training loop does."""
    advance(algo, r)
    algo.ingest(r)


def updates(algo, flat, batches):
    """Update the algorithm on each batch as the training loop does, and yield the losses."""
    gradient_sync = Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm))
    for batch in batches:
        loss = algo.loss(batch)
        flat.backward(loss.total)
        gradient_sync.step(algo.now.learning_rate, loss.total.detach())
        algo.after_update(batch, loss)
        yield loss


def update(algo, flat, batch):
    """Make one update of the algorithm with a new optimizer."""
    (loss,) = updates(algo, flat, [batch])
    return loss
