from accel_rl.ranks.async_context import AsyncClock, OwnBatches
from accel_rl.ranks.shared_counters import SharedCounters
from accel_rl.samplers.episodes import EpisodeTracker
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config


def tracker(*scores):
    t = EpisodeTracker(1, window=3)
    for s in scores:
        t.recent.append((s, 10, int(s) % 3))
        t.count += 1
    return t


def test_counts_are_of_all_ranks():
    counters = SharedCounters(2, window=3)
    assert not counters.begun
    counters.begin(1_000)
    counters.add(0, 40, 1, tracker(1.0))
    counters.add(1, 60, 2, tracker(5.0, 6.0, 7.0, 8.0))
    counters.add(0, 40, 2, tracker(1.0, 2.0))
    assert counters.begun and counters.totals().env_steps == 1_140 and counters.of_rank(0) == 80
    assert sorted(s for s, n, game in counters.recent() if (n, game) == (10, int(s) % 3)) == [
        1.0,
        2.0,
        7.0,
        8.0,
    ]  # A window of 3 scores is rounded up to 2 per rank.
    assert counters.totals() == (1_140, 6, 4)
    counters.close()


def test_a_rank_that_was_replaced_goes_on_counting():
    counters = SharedCounters(1, window=3)
    counters.add(0, 40, 5, tracker(1.0, 2.0))
    # A new process of the rank resumes from an older checkpoint, and plays other episodes.
    counters.add(0, 40, 3, tracker(1.0, 9.0, 8.0))
    assert counters.of_rank(0) == 80
    assert {s for s, n, game in counters.recent() if (n, game) == (10, int(s) % 3)} == {1.0, 2.0, 8.0}
    counters.close()


def test_a_row_is_of_one_reading():
    """All numbers in a row of metrics are those at the last call of `count`, even if another rank counts afterwards."""
    counters = SharedCounters(2, window=3)
    counters.begin(0)
    clock = AsyncClock(counters, 0, fill_in(default_config("a2c")))
    assert clock.count(0, 40, tracker(1.0), 1) == 40
    counters.add(1, 60, 2, tracker(5.0, 6.0))
    assert clock.report(tracker(), 0)[1:] == (1, 1)
    assert clock.count(40, 40, tracker(1.0), 2) == 140 and clock.report(tracker(), 0)[1:] == (3, 4)
    counters.close()


def test_the_clock_of_schedules_is_that_of_all_ranks():
    """OwnBatches.count returns the new env steps of all ranks, which drive schedules, and those of this rank."""
    counters = SharedCounters(2, window=3)
    counters.begin(0)
    a, b = OwnBatches(counters, 0), OwnBatches(counters, 1)
    for clock in (a, b):
        clock.begin(0)
    assert a.count(40) == (40, 40)
    counters.add(0, 40, 1, tracker())
    assert b.count(30) == (70, 30)
    counters.add(1, 30, 1, tracker())
    assert a.count(40) == (70, 40)
    late = OwnBatches(counters, 1)  # A new process of rank 1, which resumes at 10 env steps.
    late.begin(10)
    assert late.count(5) == (40 + 30 + 5 - 10, 5)
    counters.close()
