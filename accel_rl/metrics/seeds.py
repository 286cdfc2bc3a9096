"""Runs of the same settings and seed count once in statistics over seeds."""

from collections.abc import Hashable, Sequence

from accel_rl.system.counts import counted


def counted_once(keys: Sequence[Hashable], lengths: Sequence[float]) -> dict[int, list[int]]:
    """Return {index of the run that counts: indexes of the runs of the same key that do not}, in order.

    keys: settings, game and seed of each run. lengths: env steps of each run. The longest run counts, else the first.
    """
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    found = {}
    for same in groups.values():
        kept = max(same, key=lambda i: lengths[i])  # the first of several
        found[kept] = [i for i in same if i != kept]
    return dict(sorted(found.items()))


def repeated(kept: str, others: Sequence[str], seed: object) -> str:
    """Return a line that names runs of the same settings and seed."""
    return f"seed {seed} counts once, from {kept}; {counted(len(others), 'more run')} of it: {', '.join(others)}"
