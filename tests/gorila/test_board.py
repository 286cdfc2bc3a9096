from collections import Counter
from types import SimpleNamespace

import pytest

from accel_rl.gorila import board as boards
from accel_rl.gorila.board import Answer, Board, BoardLine, MemberCount, Work
from accel_rl.gorila.driver import PushReport


def board_of(*members, **more):
    return Board(members or [MemberCount() for _ in range(2)], window=4, **more)


def test_a_repeated_or_lost_report_changes_nothing():
    board = board_of()
    for env_steps in (10, 10, 25):
        answer = board.report(0, 0, Work(env_steps, 1, 2), [])
    assert answer.env_steps == 25
    assert board.report(1, 0, Work(5), []).env_steps == 30
    assert [m.work for m in board.read(False)] == [Work(25, 1, 2), Work(5)]


def test_a_new_process_adds_to_those_before_it():
    board = board_of()
    board.report(0, 0, Work(10, 1, 2), [(1.0, 9, 0)])
    board.report(0, 1, Work(3, 1, 1), [])
    assert board.report(0, 0, Work(99), []).env_steps == 13, "a report of the dead process that arrives late"
    first = board.read(False)[0]
    assert (first.work, first.life, first.recent) == (Work(13, 2, 3), 1, [(1.0, 9, 0)])


def test_another_board_continues_from_what_was_read():
    board = board_of()
    board.report(0, 2, Work(10, 1, 2), [(1.0, 9, 0)])
    other = board_of(*board.read(False))
    assert other.report(0, 2, Work(12, 1, 2), []).env_steps == 12, "of the same process: not added"
    saved = [MemberCount.from_dict(m.to_dict()) for m in other.read(False)]
    assert board_of(*saved).report(0, 3, Work(1), []).env_steps == 13


def test_members_hear_whether_the_run_ends_and_of_a_silent_driver(monkeypatch):
    now = 100.0
    monkeypatch.setattr("accel_rl.gorila.board.time.monotonic", lambda: now)
    board = board_of()
    board.read(False)
    now = 107.0
    answer = board.report(0, 0, Work(), [])
    assert not answer.stop and answer.silent_s == 7.0
    board.read(True)
    assert board.report(0, 0, Work(), []).stop
    board.read(False)
    assert board.report(0, 0, Work(), []).stop, "an end is not taken back"


def test_each_member_has_its_share_of_the_recent_episodes():
    board = board_of()
    for member in range(2):
        board.report(member, 0, Work(), [(float(i), i, 0) for i in range(5)])
    assert [m.recent for m in board.read(False)] == [[(3.0, 3, 0), (4.0, 4, 0)]] * 2


def test_pushes_since_the_last_row():
    report = PushReport()
    row = report.since_last([Counter(accepted=10, delay=20), Counter(accepted=10, stale=1, delay=0)], Work())
    assert (row["pushes_accepted"], row["pushes_stale"], row["push_delay"]) == (20, 1, 1.0)
    row = report.since_last([Counter(accepted=12, delay=30), Counter(accepted=10, delay=0)], Work(lost=3))
    assert (row["push_delay"], row["pushes_lost"]) == (5.0, 3)
    row = report.since_last([Counter(accepted=6, delay=8), Counter(accepted=6)], Work())
    assert row["push_delay"] != row["push_delay"] and row["pushes_per_s"] == 0, "a shard is back at its snapshot"


def test_stale_pushes_are_said_once():
    report = PushReport()
    report.since_last([Counter(accepted=400, stale=400)], Work())
    assert report.stale(100) == "", "too few pushes to tell"
    report.since_last([Counter(accepted=960, stale=40)], Work())
    assert report.stale(100) == ""
    report.since_last([Counter(accepted=1_060, stale=940)], Work())
    line = report.stale(100)
    assert line.startswith("47% of the pushes were discarded") and "--gorila.max-delay" in line and "\n" not in line
    assert report.stale(100) == ""


class SlowRay:
    """A fake Ray whose actors answer only from `starts_after_s` seconds after their start."""

    exceptions = SimpleNamespace(RayActorError=KeyError, GetTimeoutError=TimeoutError)

    def __init__(self, monkeypatch, starts_after_s):
        self.now, self.starts_after_s, self.killed, self.started = 100.0, starts_after_s, 0, 0
        monkeypatch.setattr(boards, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(boards, "start_named", lambda *_, **options: self.start())
        monkeypatch.setattr(boards, "beside", lambda ray: None)

    def start(self):
        self.started += 1
        self.ready_at = self.now + self.starts_after_s
        return SimpleNamespace(read=SimpleNamespace(remote=lambda stop: self.ready_at))

    def get(self, ready_at, timeout):
        self.now += timeout
        if self.now < ready_at:
            raise TimeoutError
        return []

    def kill(self, actor):
        self.killed += 1


@pytest.mark.parametrize(("starts_after_s", "started"), [(60.0, 1), (299.0, 1), (1e9, 2)])
def test_a_board_that_starts_slowly_is_not_replaced(monkeypatch, starts_after_s, started):
    ray = SlowRay(monkeypatch, starts_after_s)
    keeper = boards.BoardKeeper(ray, "board", [], 4)
    for _ in range(32):
        keeper.read(False, 10.0)
    assert ray.started == started == ray.killed + 1


def test_a_board_that_has_answered_and_hangs_is_replaced(monkeypatch):
    ray = SlowRay(monkeypatch, 0.0)
    keeper = boards.BoardKeeper(ray, "board", [], 4)
    keeper.read(False, 10.0)
    ray.ready_at = 1e9
    keeper.read(False, 10.0)
    assert ray.killed == 1 and ray.started == 2


def test_a_member_that_has_lost_the_driver_ends_before_the_run():
    line = BoardLine(None, "board", 0, 0)
    assert line.ended
    line._heard_at -= boards.LOST_S + 1
    assert line.lost and not line.ended
    line.answer = Answer(0, True, 0.0)
    assert line.ended
