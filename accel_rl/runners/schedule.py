"""The order in which sampling and learning take turns."""

import torch
from torch import Tensor

from accel_rl.algos.base import Algorithm
from accel_rl.optim.exchange import Exchange
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.alternating import Sampler


class Lockstep:
    """Sample a rollout, learn from it, sample the next: neither ever runs beside the other."""

    def __init__(
        self, sampler: Sampler, algo: Algorithm, flat: FlatParameters, exchange: Exchange, norms: bool = False
    ):
        self.sampler, self.algo, self.flat, self.exchange, self.norms = sampler, algo, flat, exchange, norms
        self.updates = 0

    def cycle(self) -> tuple[int, list[dict[str, Tensor]]]:
        """One rollout and its updates -> (env steps taken, the metrics of each update)."""
        rollout = self.sampler.collect(self.algo.agent)
        self.algo.ingest(rollout)
        metrics = []
        for batch in self.algo.batches():
            self.flat.zero_grad()
            loss = self.algo.loss(batch)
            loss.total.backward()
            before = self.flat.data.clone() if self.norms else None
            grad_norm = self.exchange.apply(self.algo.learning_rate, loss.total.detach())
            self.algo.after_update(batch, loss)
            self.updates += 1
            self.sampler.check()
            metrics.append({**loss.metrics, "grad_norm": grad_norm, **self._layer_norms(before)})
        return int(rollout.valid.sum()), metrics

    def _layer_norms(self, before: Tensor | None) -> dict[str, Tensor]:
        """Stooke & Abbeel 2018, appendix C: L2 norms of each layer's parameters, gradient (clipped) and step."""
        if before is None:
            return {}
        norm, norms = torch.linalg.vector_norm, {}
        for name, part in self.flat.layers():
            norms[f"param_norm/{name}"] = norm(self.flat.data[part])
            norms[f"grad_norm/{name}"] = norm(self.flat.grad[part])
            norms[f"step_norm/{name}"] = norm(self.flat.data[part] - before[part])
        return norms
