from itertools import chain

import pytest

from accel_rl.samplers.grouping import Grouping, env_seed, most_workers
from accel_rl.text.errors import ConfigError


@pytest.mark.parametrize("size", [(16, 2, 4), (6, 1, 3), (6, 3, 1), (1, 1, 1), (24, 2, 3)])
def test_slices_are_a_partition(size):
    B, groups, workers = size
    grouping = Grouping(*size)
    every = list(range(B))
    parts = [every[grouping.part(w, g)] for g in range(groups) for w in range(workers)]
    assert list(chain(*parts)) == every
    assert {len(p) for p in parts} == {grouping.n} == {B // (groups * workers)}
    for g in range(groups):
        assert list(chain(*parts[g * workers : (g + 1) * workers])) == every[grouping.group(g)]


def test_a_group_is_the_same_whatever_the_worker_count():
    for workers in (1, 2, 4, 8):
        assert [Grouping(16, 2, workers).group(g) for g in range(2)] == [slice(0, 8), slice(8, 16)]


def test_workers_that_are_groups_by_themselves():
    grouping = Grouping(12, 3, 3, dedicated_workers=True)
    assert [grouping.part(w, g) for w in range(3) for g in grouping.groups_of(w)] == [
        slice(0, 4),
        slice(4, 8),
        slice(8, 12),
    ]
    assert grouping.n == 4 and [list(grouping.workers_of(g)) for g in range(3)] == [[0], [1], [2]]
    with pytest.raises(ConfigError, match=r"^B=7 must divide by 3 workers; use 6$"):
        Grouping(7, 3, 3, dedicated_workers=True)


def test_groups_with_several_workers_of_their_own():
    grouping = Grouping(16, 2, 4, dedicated_workers=True)
    assert [list(grouping.workers_of(g)) for g in range(2)] == [[0, 1], [2, 3]]
    assert [list(grouping.groups_of(w)) for w in range(4)] == [[0], [0], [1], [1]]
    assert [grouping.part(w, g) for w in range(4) for g in grouping.groups_of(w)] == [
        slice(4 * w, 4 * w + 4) for w in range(4)
    ]
    assert [grouping.group(g) for g in range(2)] == [Grouping(16, 2, 1).group(g) for g in range(2)]


@pytest.mark.parametrize(
    ("size", "use"), [((5, 2, 1), 4), ((7, 2, 2), 8), ((16, 3, 1), 15), ((1, 2, 3), 6), ((17, 4, 4), 16)]
)
def test_sizes_that_do_not_divide_name_one_that_does(size, use):
    with pytest.raises(ConfigError) as e:
        Grouping(*size)
    assert str(e.value) == f"B={size[0]} must divide by {size[1]} groups x {size[2]} workers; use {use}"
    assert Grouping(use, *size[1:]).n >= 1


@pytest.mark.parametrize("size", [(0, 1, 1), (4, 0, 1), (4, 1, 0), (-4, 2, 2)])
def test_impossible_sizes(size):
    with pytest.raises(ConfigError, match="each must be at least 1") as e:
        Grouping(*size)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("B", "groups", "cores", "want"),
    [(16, 2, 8, 8), (16, 2, 7, 4), (16, 2, 100, 8), (6, 2, 2, 1), (9, 2, 4, 1), (12, 2, 5, 3), (16, 1, 1, 1)],
)
def test_most_workers(B, groups, cores, want):
    assert most_workers(B, groups, cores) == want


def test_every_environment_and_generation_has_its_seed():
    seeds = {(s, i, g): env_seed(s, i, g) for s in range(4) for i in range(64) for g in range(3)}
    assert len(set(seeds.values())) == len(seeds)
    assert all(0 <= s < 2**31 for s in seeds.values())
    assert all(env_seed(*k) == v for k, v in seeds.items())
    assert env_seed(0, 5) == env_seed(0, 5, 0)
