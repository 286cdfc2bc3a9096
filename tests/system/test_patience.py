"""Timeouts of a process that is stopped while it waits."""

import time

from accel_rl.system.patience import SLICE_S, Patience


def test_waits_are_cut_into_slices_and_add_up():
    asked, patience = [], Patience(0.25)
    while not patience.over:
        patience.spend(lambda s: (asked.append(s), time.sleep(0.1)))
    assert len(asked) == 3 and asked[0] == 0.25 and asked[-1] < 0.06
    assert Patience(60).spend(lambda s: s) == SLICE_S


def test_a_long_stop_counts_for_a_second(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    patience = Patience(3.5)

    def stopped(_):
        clock[0] += 1000.0
        return "found"

    assert patience.spend(stopped) == "found"
    assert patience.left == 2.5 and not patience.over
