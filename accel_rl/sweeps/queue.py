"""The queue of runs: the largest first, each in a slot that does not overlap a slot in use."""

from collections.abc import Iterable, Mapping, Sequence

from accel_rl.sweeps.needs import Size
from accel_rl.sweeps.slots import Slot


def in_order(waiting: Iterable[str], sizes: Mapping[str, Size]) -> list[str]:
    """Order runs by size, the largest first; runs of one size keep their order."""
    return sorted(waiting, key=lambda name: sizes[name], reverse=True)


def starts(
    waiting: Iterable[str], sizes: Mapping[str, Size], slots: Mapping[Size, Sequence[Slot]], in_use: Iterable[Slot]
) -> list[tuple[str, Slot]]:
    """Return the runs that can start now, each with the first free slot of its size.

    If no slot of its size is free, a run claims the slot with the fewest processors in use. Smaller runs behind it may
    use unclaimed slots only. So smaller runs never delay a larger run, and processors that it cannot use are not idle.
    """
    used = {p for slot in in_use for p in slot.held}
    claimed: set[int] = set()
    exhausted: set[Size] = set()  # sizes without an unclaimed slot
    found = []
    for name in in_order(waiting, sizes):
        size = sizes[name]
        if size in exhausted:
            continue
        unclaimed = [slot for slot in slots[size] if claimed.isdisjoint(slot.held)]
        if not unclaimed:
            exhausted.add(size)
            continue
        best = min(unclaimed, key=lambda slot: len(used.intersection(slot.held)))  # the first of equal slots
        if used.isdisjoint(best.held):
            found.append((name, best))
            used.update(best.held)
        else:
            claimed.update(best.held)
    return found
