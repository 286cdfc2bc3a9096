"""Streams of random experience with vector observations, cut into successive rollouts."""

import torch

from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.ops.policy_loss import log_prob

FEATURES, ACTIONS, B = 5, 3, 6
SPEC = EnvSpec("stream", (FEATURES,), "float32", ACTIONS, 1)
NAN = float("nan")


class Stream:
    """Successive rollouts of T steps of B environments, with terminations, truncations and lost lives.

    With `waits`, environments whose episode ended are skipped until the rollout ends, and the worker process of
    environment 4 dies during the second rollout. The rewards of skipped steps are NaN.
    """

    def __init__(self, T: int, rollouts: int, waits: bool, seed: int = 0):
        g = torch.Generator().manual_seed(seed)
        rows = T * rollouts
        self.T, self.rollouts = T, rollouts
        self.frames = torch.randn(rows + 1, B, FEATURES, generator=g)
        self.final_frames = torch.randn(rows, B, FEATURES, generator=g)
        self.action = torch.randint(0, ACTIONS, (rows, B), generator=g)
        self.reward = 2 * torch.randn(rows, B, generator=g)
        flag = lambda p: torch.rand(rows, B, generator=g) < p  # noqa: E731
        over, life_lost = flag(0.1), flag(0.07)
        self.truncated = flag(0.12) & ~over & ~life_lost
        self.terminated, self.ended = over | life_lost, over | self.truncated
        self.valid = torch.ones(rows, B, dtype=torch.bool)
        self.age = torch.ones(rows + 1, B, dtype=torch.uint8)
        if waits:
            self._wait()
            self._lose(4)
        for t in range(rows):
            self.age[t + 1][self.ended[t]] = 0
        skipped = ~self.valid
        self.reward[skipped] = NAN
        for flags in (self.terminated, self.truncated, self.ended):
            flags[skipped] = False
        self.age[:-1][skipped] = 0
        self.age[0] = 0

    def _wait(self) -> None:
        for t in range(self.T * self.rollouts):
            end = (t // self.T + 1) * self.T
            for b in self.ended[t].nonzero().squeeze(-1).tolist():
                if self.valid[t, b]:
                    self.valid[t + 1 : end, b] = False
                    self.age[end, b] = 0

    def _lose(self, b: int) -> None:
        self.valid[self.T : 2 * self.T, b] = False
        self.age[2 * self.T, b] = 0

    def rollout(self, k: int) -> Rollout:
        """Return rollout k, without the values and log-probabilities that an agent records."""
        low, high = k * self.T, (k + 1) * self.T
        names = ("final_frames", "action", "reward", "terminated", "truncated", "ended", "valid")
        arrays = {name: getattr(self, name)[low:high].clone() for name in names}
        return Rollout(
            frames=self.frames[low : high + 1].clone(), age=self.age[low : high + 1].clone(), stack=1, **arrays
        )


@torch.no_grad()
def act(agent, r: Rollout, state: torch.Tensor | None) -> torch.Tensor | None:
    """Write the agent's values, and the log-probabilities of the rollout's random actions, into the rollout.

    Returns the agent's recurrent state after the last step.
    """
    if state is not None:
        r.state = state
    *outputs, states = agent.forward(r.observations(0, r.T), r.memory())
    value = outputs[1] if len(outputs) == 2 else outputs[0].amax(-1)
    r.recorded["value"] = value.view(r.T, r.B).clone()
    if len(outputs) == 2:
        r.recorded["log_prob"] = log_prob(outputs[0], r.action.reshape(-1)).view(r.T, r.B)
    for x in r.recorded.values():
        x[~r.valid] = NAN
    if states is not None:
        r.next_state = states[-1].clone()
    return r.next_state
