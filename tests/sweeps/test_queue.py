"""A sweep starts its largest runs first, in disjoint slots. Smaller runs that come later never delay a large run."""

import itertools
import random

import pytest

from accel_rl.machine.machine import Machine, Node
from accel_rl.machine.placement import Slot, slots_of
from accel_rl.sweeps.layout import Size, in_order, starts

DGX1 = Machine(
    (
        Node(tuple((c, c + 40) for c in range(20)), (0, 1, 2, 3)),
        Node(tuple((c, c + 40) for c in range(20, 40)), (4, 5, 6, 7)),
    )
)


def slots(*gpus: int, runs_per_gpu: int = 1) -> dict[Size, list[Slot]]:
    return {Size(n): slots_of(DGX1, None, n, runs_per_gpu) for n in gpus}


def queue(**gpus: int) -> dict[str, Size]:
    return {name: Size(n) for name, n in gpus.items()}


def gpus_of(found: list[tuple[str, Slot]]) -> dict[str, tuple[int, ...]]:
    return {name: slot.gpus for name, slot in found}


def test_the_largest_begin_first_and_others_fill_what_is_left():
    sizes = queue(a=1, b=4, c=2, d=1, e=1)
    assert in_order(sizes, sizes) == ["b", "c", "a", "d", "e"]
    found = gpus_of(starts(sizes, sizes, slots(1, 2, 4), []))
    assert found == {"b": (0, 1, 2, 3), "c": (4, 5), "a": (6,), "d": (7,)}  # e waits


def test_a_run_that_waits_keeps_smaller_ones_out_of_its_slot_alone():
    sizes, here = queue(a=1, b=1, big=4), slots(1, 4)
    in_use = [here[Size(4)][0], here[Size(1)][5]]  # Runs use the GPUs 0-3 and 5.
    # The run `big` reserves GPUs 4-7, of which only GPU 5 is in use.
    assert starts(["a", "b", "big"], sizes, here, in_use) == []
    found = starts(["a", "b", "big"], sizes, here, in_use[:1])
    assert gpus_of(found) == {"big": (4, 5, 6, 7)}
    half = [here[Size(1)][g] for g in (0, 1, 4)]
    assert gpus_of(starts(["big", "a", "b"], sizes, here, half)) == {"a": (2,), "b": (3,)}  # it claims 4-7


def test_sizes_that_do_not_divide_the_machine_do_not_overlap():
    sizes, here = queue(a=3, b=3, pair=2, e=1, f=1, c=3, d=3), slots(1, 2, 3)
    few = gpus_of(starts(["a", "b", "pair", "e", "f"], sizes, here, []))
    # The run `pair` reserves GPUs 2 and 3, and waits for GPU 2.
    assert few == {"a": (0, 1, 2), "b": (4, 5, 6), "e": (7,)}
    many = gpus_of(starts(sizes, sizes, here, []))
    # The runs c and d will replace a and b, and do not need GPUs 3 and 7.
    assert many == {"a": (0, 1, 2), "b": (4, 5, 6), "e": (3,), "f": (7,)}


def test_a_run_of_more_gpus_than_a_node_has_goes_across_nodes_and_waits_for_both():
    sizes, here = queue(a=1, big=5), slots(1, 5)
    assert here[Size(5)][0].nodes == (0, 1)
    assert gpus_of(starts(["big", "a"], sizes, here, [here[Size(1)][7]])) == {"big": (0, 1, 2, 3, 4), "a": (5,)}
    assert gpus_of(starts(["big", "a"], sizes, here, [here[Size(1)][0]])) == {"a": (5,)}


def test_runs_that_share_a_gpu_keep_to_their_half_of_its_cores():
    sizes, here = queue(a=1, b=1, pair=2), slots(1, 2, runs_per_gpu=2)
    found = starts(["a", "b", "pair"], sizes, here, [])
    assert gpus_of(found) == {"pair": (0, 1), "a": (0,), "b": (1,)}
    for (_, x), (_, y) in itertools.combinations(found, 2):
        assert not set(x.held) & set(y.held)


def test_cores_without_a_gpu_are_of_any_size_too():
    here = {Size(0, n): slots_of(DGX1, [], cores_per_run=n) for n in (1, 8, 40)}
    sizes = {"one": Size(0, 1), "eight": Size(0, 8), "all": Size(0, 40)}
    assert [name for name, _ in starts(sizes, sizes, here, [])] == ["all"]
    found = dict(starts(["one", "eight"], sizes, here, []))
    assert len(found["eight"].cores) == 16 and len(found["one"].cores) == 2


@pytest.mark.parametrize("seed", range(20))
def test_nothing_overlaps_and_small_runs_never_keep_larger_ones_waiting(seed):
    """All larger runs start and end, although small runs are queued again whenever they end."""
    rng = random.Random(seed)
    here = slots(1, 2, 3, 4, 5, 8)
    sizes = {f"{i}": Size(rng.choice((2, 3, 4, 5, 8))) for i in range(30)}
    small = {f"small{i}": Size(1) for i in range(12)}
    waiting, running, ended = [*small], {}, set()
    for now in range(2_000):
        if now % 10 == 0 and now // 10 < len(sizes):  # A run of several GPUs is added every ten steps.
            waiting.append(f"{now // 10}")
        for name in [n for n, (_, until) in running.items() if until <= now]:
            del running[name]
            if name in small:
                waiting.insert(0, name)  # as in a retry
            else:
                ended.add(name)
        for name, slot in starts(waiting, sizes | small, here, [s for s, _ in running.values()]):
            waiting.remove(name)
            running[name] = (slot, now + rng.randint(1, 9))
        for (x, _), (y, _) in itertools.combinations(running.values(), 2):
            assert not set(x.held) & set(y.held) and not set(x.gpus) & set(y.gpus)
        if ended == set(sizes):
            return
    raise AssertionError(f"never ended: {sorted(set(sizes) - ended)}")
