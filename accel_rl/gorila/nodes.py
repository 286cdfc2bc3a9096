"""The nodes of a Ray cluster, usually one a machine."""

from collections.abc import Callable
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.gorila.resources import share_of


class Nodes:
    """Notes which nodes come and go."""

    def __init__(self, ray: Any, event: Callable[[str], None]):
        """event: notes an event of the run."""
        self._ray, self._event = ray, event
        self._alive = self._now()

    def __len__(self) -> int:
        return len(self._alive)

    def _now(self) -> dict[str, dict[str, float]]:
        return {node["NodeID"]: node["Resources"] for node in self._ray.nodes() if node["Alive"]}

    def look(self) -> None:
        """See which nodes are there now."""
        now = self._now()
        for node in self._alive.keys() - now:
            self._event(f"node {node[:8]} is gone: {len(now)} of the cluster's nodes are left")
        for node in now.keys() - self._alive:
            self._event(f"node {node[:8]} has joined the cluster")
        self._alive = now

    def share(self, config: TrainConfig) -> dict[str, float]:
        """Return what Ray sets aside for each member. ConfigError if the members do not fit."""
        g, n = config.gorila, config.gorila.members
        cpus, gpus = ([node.get(name, 0.0) for node in self._alive.values()] for name in ("CPU", "GPU"))
        wants_gpu = config.device != "cpu" and sum(gpus) > 0
        return {
            "num_cpus": share_of(cpus, n, g.bundle_cpus, "bundle-cpus", "cores"),
            "num_gpus": share_of(gpus, n, g.bundle_gpus, "bundle-gpus", "GPUs") if wants_gpu else 0.0,
        }
