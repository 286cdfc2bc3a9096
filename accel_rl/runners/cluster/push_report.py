"""The pushes of a cluster run in its rows of metrics: numbers, rates and delays."""

import time
from collections.abc import Sequence

from accel_rl.distributed.parameter_server.messages import ShardCounts
from accel_rl.metrics.sinks import Row
from accel_rl.runners.cluster.board import Work


class PushReport:
    """Turns the counts of shards and members into a row, with what is new since the last one."""

    def __init__(self) -> None:
        self._at, self._last, self._moved = time.monotonic(), ShardCounts(), 0

    def since_last(self, shards: Sequence[ShardCounts], work: Work) -> Row:
        """Return numbers since the beginning of the run, and rates and the mean delay since the last row.

        A push is counted once for each shard. push_delay: mean number of other pushes that a shard took between the
        parameters of an accepted push and its arrival.
        """
        now = ShardCounts(*(sum(getattr(s, name) for s in shards) for name in ShardCounts.__slots__))
        at, last = time.monotonic(), self._last
        seconds = max(at - self._at, 1e-9)
        accepted = max(0, now.accepted - last.accepted)
        row: Row = {
            "pushes_accepted": now.accepted,
            "pushes_stale": now.stale,
            "pushes_duplicate": now.duplicates,
            "pushes_refused": now.refused,
            "pushes_lost": work.lost,
            "gradients_outlier": work.outliers,
            "push_delay": (now.delay - last.delay) / accepted if accepted else float("nan"),
            "pushes_per_s": round(accepted / seconds, 1),
            "bytes_per_s": round(max(0, work.moved - self._moved) / seconds),
        }
        self._at, self._last, self._moved = at, now, work.moved
        return row
