"""The shared memory of a pool: rollouts, and the counters by which processes signal."""

from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.workers.channel import counters_layout


class PoolMemory:
    """Buffers of T steps of all environments, and request and answer counters of every worker and group."""

    def __init__(self, spec: EnvSpec, grouping: Grouping, T: int, buffers: int):
        self.rollout_layout: Layout = {}
        for i in range(buffers):
            self.rollout_layout |= rollout_layout(spec, T, grouping.B, prefix=f"{i}/")
        self.rollouts = SharedArrays.create(self.rollout_layout)
        self.buffers = [RolloutArrays.of(self.rollouts.arrays, spec.stack, prefix=f"{i}/") for i in range(buffers)]
        self.counters_layout = counters_layout(grouping.workers, grouping.groups)
        self.counters = SharedArrays.create(self.counters_layout)

    @property
    def fds(self) -> set[int]:
        return {self.rollouts.fd, self.counters.fd}

    def close(self) -> None:
        self.rollouts.close()
        self.counters.close()
