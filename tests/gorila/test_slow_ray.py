"""Parameter shards that start slowly, and Gorila members that have lost their driver, on a fake Ray."""

from types import SimpleNamespace

import pytest

from accel_rl.gorila import members, shard_actors
from accel_rl.gorila.board import MemberCount
from accel_rl.gorila.members import Members
from accel_rl.gorila.setup import Place
from accel_rl.gorila.shard_actors import RayShards
from tests.gorila.made_up import sync_of


class FakeRay:
    """A fake Ray whose calls return `answers[method]`, or time out if the method has no answer."""

    exceptions = SimpleNamespace(RayActorError=KeyError, RayTaskError=IndexError, GetTimeoutError=TimeoutError)

    def __init__(self):
        self.answers, self.started, self.killed = {}, [], 0

    def start(self, ray, cls, name, *arguments, **options):
        self.started.append(name)
        call = SimpleNamespace(remote=lambda method: method)
        return SimpleNamespace(call=call, **{m: SimpleNamespace(remote=lambda *_, m=m: m) for m in ("place", "run")})

    def wait(self, calls, timeout):
        return [call for call in calls if call in self.answers], []

    def get(self, call, timeout=None):
        if call not in self.answers:
            raise TimeoutError
        return self.answers[call]

    def kill(self, actor):
        self.killed += 1


@pytest.fixture
def ray(monkeypatch):
    ray = FakeRay()
    for module in (shard_actors, members):
        monkeypatch.setattr(module, "start_named", ray.start)
    return ray


def test_a_shard_has_more_time_for_its_start_than_for_an_answer(ray, monkeypatch):
    now = 0.0
    monkeypatch.setattr(shard_actors, "time", SimpleNamespace(monotonic=lambda: now))
    shards = RayShards(ray, sync_of().build_shards())

    def replaced_after(seconds):
        nonlocal now
        assert shards.look(60.0) == []  # requests the status
        now += seconds
        return shards.look(60.0) == [0]

    assert not replaced_after(299.0)
    now += 2.0
    assert shards.look(60.0) == [0]
    ray.answers["status"] = shards.status[0]
    assert not replaced_after(299.0)
    ray.answers.clear()
    assert replaced_after(61.0) and ray.killed == 2


@pytest.mark.parametrize(("has_ended", "started"), [(True, 1), (False, 2)])
def test_a_member_that_has_lost_its_driver_is_replaced(ray, has_ended, started):
    setup = SimpleNamespace(name="run")
    seats = Members(ray, setup, ["bundle"], [MemberCount()], {})
    ray.answers["place"] = Place("node", "machine")
    ray.nodes = lambda: [{"NodeID": "node", "Alive": True}]
    seats.look([MemberCount()], ending=False)
    assert seats.running == 1
    ray.answers["run"] = has_ended
    for _ in range(2):
        seats.look([MemberCount()], ending=False)
    assert len(ray.started) == started and seats.ended == has_ended and seats.replaced == started - 1
