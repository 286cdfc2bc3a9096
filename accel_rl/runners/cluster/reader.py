"""The rank context of a process that reads the shards' parameters without learning: the driver and the evaluator."""

from accel_rl.algos.algorithm import Algorithm
from accel_rl.config.gorila import GorilaConfig
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.parameter_server.sharded_sync import ShardedSync
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.ranks.context import SingleRank


class Reader(SingleRank):
    """Gives a `Learner` the parameters of the shards."""

    captures_updates = False
    sync: ShardedSync

    def __init__(self, name: str, config: GorilaConfig, saves_shards: bool = False):
        """name: of this process, for the shards. saves_shards: see `ShardedSync`."""
        self._name, self._config, self._saves_shards = name, config, saves_shards

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self.sync = ShardedSync(
            flat, algo.build_optimizer, algo.config.max_grad_norm, self._config, self._name, self._saves_shards
        )
        return self.sync
