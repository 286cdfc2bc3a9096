"""The queue of runs: the largest first, each in a slot that shares nothing with a slot in use."""

from collections.abc import Iterable, Mapping, Sequence

from launch.needs import Size
from launch.slots import Slot


def in_order(waiting: Iterable[str], sizes: Mapping[str, Size]) -> list[str]:
    """Order runs by size, the largest first; runs of one size keep their order."""
    return sorted(waiting, key=lambda name: sizes[name], reverse=True)


def starts(
    waiting: Iterable[str], sizes: Mapping[str, Size], slots: Mapping[Size, Sequence[Slot]], in_use: Iterable[Slot]
) -> list[tuple[str, Slot]]:
    """The runs that can begin now, each with its slot: the first of its size that is free.

    Where none is free, the run claims the one that has the fewest processors in use. Smaller runs further back may take
    what no claim covers. So they never keep a larger run waiting, and what it cannot use is not idle.
    """
    used = {p for slot in in_use for p in slot.held}
    claimed: set[int] = set()
    exhausted: set[Size] = set()  # sizes of which all slots are in use or claimed
    found = []
    for name in in_order(waiting, sizes):
        size = sizes[name]
        if size in exhausted:
            continue
        unclaimed = [slot for slot in slots[size] if claimed.isdisjoint(slot.held)]
        if not unclaimed:
            exhausted.add(size)
            continue
        best = min(unclaimed, key=lambda slot: len(used.intersection(slot.held)))  # the first of several
        if used.isdisjoint(best.held):
            found.append((name, best))
            used.update(best.held)
        else:
            claimed.update(best.held)
    return found
