"""Parameter shards as Ray actors on this machine."""

import os
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec

import psutil
import pytest
import torch

from accel_rl.gorila.ray_session import NAMESPACE, load_ray, local_ray
from accel_rl.gorila.shard import Push, Shard, Version
from accel_rl.gorila.shard_actors import RayShards
from accel_rl.gorila.transport import ShardUnavailable
from accel_rl.text.errors import ConfigError
from tests.gorila.made_up import Subtract, connected, learn, local_of, sync_of

WAIT_S = 60.0
# find_spec finds Ray without importing Ray.
WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra cluster)")


def test_without_ray_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^Ray is not installed: pip install 'accel_rl\[cluster\]'$"):
        load_ray()


@pytest.fixture(scope="module")
def ray():
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with local_ray() as ray:
        mine = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
        yield ray
    psutil.wait_procs(mine, timeout=10)
    assert not [p for p in mine if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def start(ray):
    started = []

    def start(sync):
        started.append(RayShards(ray, sync.build_shards(), f"run-{os.urandom(4).hex()}"))
        return started[-1]

    yield start
    for shards in started:
        shards.close()


def replaced(shards):
    """Ask all shards, and return those that the driver has replaced because they are dead."""
    shards.refresh(WAIT_S)
    assert shards.look(WAIT_S) == []  # asks
    found = []
    while not found and any(asked is not None for asked in shards._asked):
        found = shards.look(WAIT_S)
        time.sleep(0.05)
    return found


@WITH_RAY
@pytest.mark.slow
def test_a_shard_that_is_killed_goes_on_from_its_snapshot(ray, start):
    """A killed shard is restored from its snapshot. The learner counts lost pushes, and then pulls the restored
    parameters."""
    sync = sync_of(shards=2, max_delay=100, timeout_s=WAIT_S)
    shards = start(sync)
    connected(sync, shards.transport())
    assert torch.equal(learn(sync, range(5)), learn(local_of(), range(5))) and sync.counts == Counter(accepted=10)
    saved = [s.updates for s in shards.save(WAIT_S)]
    kept = sync.flat.data[sync.parts[1]].clone()
    learn(sync, [5])
    ray.kill(ray.get_actor(shards.names[1], namespace=NAMESPACE))
    learn(sync, range(6, 8))
    assert saved == [5, 5] and sync.counts["lost"] >= 1
    assert replaced(shards) == [1] and replaced(shards) == []
    assert sync.pull_now() and torch.equal(sync.flat.data[sync.parts[1]], kept)
    before = sync.counts["accepted"]
    learn(sync, range(8, 11))
    assert sync.counts["accepted"] == before + 6
    assert [s.updates for s in shards.save(WAIT_S)] == [11, 8]


class Sleeps(Shard):
    """A shard whose method `join` takes as many seconds as the name of the learner says, such as "1.5"."""

    def join(self, learner):
        time.sleep(float(learner) if learner[0].isdigit() else 0.0)
        return super().join(learner)


@WITH_RAY
@pytest.mark.slow
def test_the_calls_of_an_actor(ray):
    """Calls of an actor: order, errors, time limits, and calls that are lost because the actor dies."""
    n = 100_000  # Ray passes messages of 100,000 numbers by its object store.
    shards = RayShards(ray, [Sleeps(torch.zeros(n), Subtract(n), max_delay=3)], "run-of-calls")
    transport = shards.transport()
    call = transport.call(0, "join", "1.5")
    with pytest.raises(ShardUnavailable, match=r"^run-of-calls/shard-0 has not answered within 0.1 s$"):
        call.result(0.1)
    assert not call.done() and call.result(WAIT_S) == 0 and call.done()

    version, gradient = transport.call(0, "pull", None).result(WAIT_S).version, torch.ones(n)
    calls = []
    for i in range(1, 6):
        gradient.fill_(float(i))  # Ray has copied the gradient of the previous push.
        calls.append(transport.call(0, "push", Push("a", i, version, 0.1, gradient)))
    pulled = transport.call(0, "pull", version)
    assert [c.result(WAIT_S) for c in calls] == ["accepted"] * 4 + ["stale"]
    answer = pulled.result(WAIT_S)
    assert answer.version == Version(version.epoch, 4, 4)
    assert torch.equal(answer.parameters, torch.full((n,), -10.0))

    with pytest.raises(ValueError, match="a push of 3 elements for 100000 parameters"):
        transport.call(0, "push", Push("a", 6, version, 0.1, torch.ones(3))).result(WAIT_S)

    shards.save(WAIT_S)
    hanging = transport.call(0, "join", "60")
    lost = transport.call(0, "push", Push("a", 7, version, 0.1, gradient))
    ray.kill(ray.get_actor(shards.names[0], namespace=NAMESPACE))
    for call in (hanging, lost):
        with pytest.raises(ShardUnavailable, match="shard-0 is gone: "):
            call.result(WAIT_S)
    with pytest.raises(ShardUnavailable, match="shard-0 is gone: "):
        transport.call(0, "push", Push("a", 8, version, 0.1, gradient)).result(WAIT_S)
    assert replaced(shards) == [0]
    counts = Counter(accepted=4, stale=1, delay=6)
    assert transport.call(0, "status").result(WAIT_S)[1] == counts, "a lost push is not repeated"
    assert transport.call(0, "push", Push("a", 8, version, 0.1, gradient)).result(WAIT_S) == "stale"
    shards.close()


@WITH_RAY
@pytest.mark.slow
def test_ray_that_was_imported_before_is_refused():
    code = "import ray\nfrom accel_rl.gorila.ray_session import local_ray\nwith local_ray(): pass"
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "RunError: Ray was imported before its session was confined" in done.stderr
