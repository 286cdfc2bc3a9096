"""The pushes of a cluster run in its rows of metrics: numbers, rates and delays."""

import time
from collections.abc import Sequence

from accel_rl.gorila.board import Work
from accel_rl.gorila.messages import ShardCounts
from accel_rl.metrics.sinks import Row

STALE_SHARE = 0.05
"""Share of discarded pushes above which a run says so."""
FEWEST_PUSHES = 1_000


class PushReport:
    """Turns the counts of shards and members into a row, with what is new since the last one."""

    def __init__(self) -> None:
        self._at, self._last, self._moved = time.monotonic(), ShardCounts(), 0
        self._said = False

    def since_last(self, shards: Sequence[ShardCounts], work: Work) -> Row:
        """Return numbers since the beginning of the run, and rates and the mean delay since the last row.

        A push is counted once for each shard. push_delay: mean number of other pushes that a shard took between the
        parameters of an accepted push and its arrival. outlier_share_won: share of the batches with a reward above 0
        that learners discarded as outliers; compare it with gradients_outlier of all.
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
            "gradients_outlier_won": work.outliers_won,
            "outlier_share_won": work.outliers_won / work.batches_won if work.batches_won else float("nan"),
            "push_delay": (now.delay - last.delay) / accepted if accepted else float("nan"),
            "pushes_per_s": round(accepted / seconds, 1),
            "bytes_per_s": round(max(0, work.moved - self._moved) / seconds),
        }
        self._at, self._last, self._moved = at, now, work.moved
        return row

    def stale(self, limit: int) -> str:
        """Return a line, once, when more than STALE_SHARE of the pushes so far were too old; else "".

        limit: their maximum age.
        """
        pushes = self._last.accepted + self._last.stale
        if self._said or pushes < FEWEST_PUSHES or self._last.stale <= STALE_SHARE * pushes:
            return ""
        self._said = True
        return (
            f"{self._last.stale / pushes:.0%} of the pushes were discarded, as they were more than {limit:,} others "
            f"old; use a larger --gorila.max-delay, or --gorila.in-flight 0"
        )
