"""The order in which sampling and learning take turns."""

from torch import Tensor

from accel_rl.runners.learner import Learner
from accel_rl.samplers.alternating import Sampler


class Lockstep:
    """Sample a rollout, learn from it, sample the next: neither ever runs beside the other.

    The first learner's agent plays. A second one, if there is one, learns after it from the same rollouts.
    """

    def __init__(self, sampler: Sampler, learner: Learner, secondary: Learner | None = None):
        self.sampler, self.learner, self.secondary = sampler, learner, secondary

    def cycle(self) -> tuple[int, list[dict[str, Tensor]]]:
        """One rollout and its updates -> (env steps taken, the metrics of each update)."""
        rollout = self.sampler.collect(self.learner.algo.agent)
        metrics = []
        for learner, prefix in ((self.learner, ""), (self.secondary, "secondary/")):
            if learner is None:
                continue
            learner.algo.ingest(rollout)
            for batch in learner.algo.batches():
                found = learner.update(batch)
                metrics.append({prefix + name: value for name, value in found.items()} if prefix else found)
                self.sampler.check()
        return int(rollout.valid.sum()), metrics
