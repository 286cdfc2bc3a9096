"""Shards as Ray actors on this machine."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import psutil
import pytest
import torch

from accel_rl.gorila.ray_session import load_ray, local_ray
from accel_rl.gorila.shard import Push, PushCounts, Version
from accel_rl.gorila.shard_actors import RayShards, transport_to
from accel_rl.gorila.transport import ShardUnavailable
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.text.errors import ConfigError
from accel_rl.training.context import Exchange, RankContext
from accel_rl.training.trainer import Trainer
from tests.gorila.made_up import OPTIMIZERS, connected, learn, local_of, sync_of
from tests.gorila.test_training import RUNS, OnShards, cycles, shown

WAIT_S = 60.0
# Ray itself is imported by its session only
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
    """The shards that the driver finds dead when it has an answer, or none, from each."""
    shards.refresh(WAIT_S)
    assert shards.look(WAIT_S) == []  # asks
    found = []
    while not found and any(asked is not None for asked in shards._asked):
        found = shards.look(WAIT_S)
        time.sleep(0.05)
    return found


def listening():
    """(process name, address) of all ports that this process and its children listen on."""
    found = set()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for c in process.net_connections("inet"):
            if c.status == psutil.CONN_LISTEN:
                found.add((process.name(), c.laddr.ip.removeprefix("::ffff:")))
    return found


@WITH_RAY
@pytest.mark.slow
def test_ray_listens_on_loopback_alone(start):
    start(sync_of())
    found = listening()
    assert len(found) >= 3 and {address for _, address in found} == {"127.0.0.1"}, found


@WITH_RAY
@pytest.mark.slow
def test_a_call_needs_the_token(ray):
    """A process with another token, or with none, is refused; one with the token is not."""
    address = ray.get_runtime_context().gcs_address
    code = f"import ray; ray.init({address!r}, logging_level='ERROR'); print('connected')"
    changes = {"right": {}, "wrong": {"RAY_AUTH_TOKEN": "0" * 64}, "none": {"RAY_AUTH_MODE": "disabled"}}
    seen = {}
    for name, change in changes.items():
        env = {**os.environ, **change}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
        seen[name] = "connected" in done.stdout
        assert name == "right" or "InvalidAuthToken" in done.stderr, done.stderr[-2_000:]
    assert seen == {"right": True, "wrong": False, "none": False}


@WITH_RAY
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_learner_equals_local_training_bit_for_bit(start, optimizer):
    sync = sync_of(optimizer=optimizer, max_norm=0.5, shards=2)
    connected(sync, start(sync).transport())
    assert torch.equal(learn(sync, range(10)), learn(local_of(optimizer, 0.5), range(10)))
    assert sync.counts == PushCounts(accepted=20)


class OnActors(OnShards):
    """The exchange of a single rank whose learner updates through shards that are actors."""

    def __init__(self, start, **settings):
        super().__init__(**settings)
        self.start = start

    def open(self, gradient_sync, env_steps):
        gradient_sync.connect(self.start(gradient_sync).transport(), publish=True)


def train(folder, name, exchange):
    run = resolve(RUNS[name])
    torch.manual_seed(0)
    trainer = Trainer(run, RankPlan.resolve(run), RunFolder.create(folder, run), None, RankContext(exchange=exchange))
    try:
        trainer._open()
        metrics = shown(cycles(trainer))
        return metrics, trainer.learner.flat.data.clone(), trainer.learner
    finally:
        trainer._close()


@WITH_RAY
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn, adagrad", "a2c, adam"])
def test_a_run_on_actors_equals_local_training_bit_for_bit(start, name, tmp_path):
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    try:
        metrics, parameters, learner = train(tmp_path / "actors", name, OnActors(start, shards=2))
        expected, local, _ = train(tmp_path / "local", name, Exchange())
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, cores)
    assert metrics == expected and torch.equal(parameters, local)
    assert learner.gradient_sync.counts == PushCounts(accepted=2 * learner.updates) and learner.updates > 10


@WITH_RAY
@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 2_000_000])  # within a message, and through Ray's shared memory
def test_tensors_arrive_whole(start, size):
    sync = sync_of()
    sync.flat.data = torch.randn(size)
    sync.parts = [slice(0, size)]
    transport = start(sync).transport()
    pulled = transport.call(0, "pull", None).result(WAIT_S)
    assert torch.equal(pulled.parameters, sync.flat.data)
    gradient = torch.randn(size)
    push = Push("a", 1, pulled.version, 0.5, gradient)
    assert transport.call(0, "push", push).result(WAIT_S) == "accepted"
    (local,) = sync.build_shards()
    assert local.push(Push("a", 1, local.version, 0.5, gradient)) == "accepted"
    assert torch.equal(transport.call(0, "pull", None).result(WAIT_S).parameters, local.pull(None).parameters)


@WITH_RAY
@pytest.mark.slow
def test_pushes_in_flight_arrive_in_order(start):
    sync = sync_of(shards=2, in_flight=2, max_delay=10)
    connected(sync, start(sync).transport())
    learn(sync, range(50))
    state = sync.state_dict()
    assert sync.counts == PushCounts(accepted=100)
    assert all(s["counts"]["delay"] <= 2 * 50 and s["updates"] == 50 for s in state["shards"])


@WITH_RAY
@pytest.mark.slow
def test_errors_of_a_shard_are_its_own(start):
    transport = start(sync_of()).transport()
    call = transport.call(0, "push", Push("a", 1, Version(0, 0, 0), 0.1, torch.ones(3)))
    with pytest.raises(ValueError, match="1000 parameters"):
        call.result(WAIT_S)


@WITH_RAY
@pytest.mark.slow
def test_a_shard_that_is_killed_goes_on_from_its_snapshot(start):
    """The learner counts what is lost, and then pulls the shard of the new epoch."""
    sync = sync_of(shards=2, max_delay=100, timeout_s=WAIT_S)
    shards = start(sync)
    connected(sync, shards.transport())
    learn(sync, range(5))
    saved = [s.updates for s in shards.save(WAIT_S)]
    kept = sync.flat.data[sync.parts[1]].clone()
    learn(sync, [5])
    os.kill(shards.pids()[1], signal.SIGKILL)
    learn(sync, range(6, 8))
    assert saved == [5, 5] and sync.counts.lost >= 1
    assert replaced(shards) == [1] and replaced(shards) == []
    assert sync.pull_now() and torch.equal(sync.flat.data[sync.parts[1]], kept)
    before = sync.counts.accepted
    learn(sync, range(8, 11))
    assert sync.counts.accepted == before + 6
    assert [s.updates for s in shards.save(WAIT_S)] == [11, 8]


@WITH_RAY
@pytest.mark.slow
def test_a_shard_that_hangs_is_named(start):
    shards = start(sync_of())
    (pid,) = shards.pids()
    transport = shards.transport()
    os.kill(pid, signal.SIGSTOP)
    try:
        call = transport.call(0, "join", "a")
        with pytest.raises(ShardUnavailable, match=r"run-.*/shard-0 has not answered within 0.3 s"):
            call.result(0.3)
        assert not call.done()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert call.result(WAIT_S) == 0 and call.done()


@WITH_RAY
@pytest.mark.slow
def test_there_is_no_shard_of_another_name(ray):
    call = transport_to(ray, ["nobody/shard-0"]).call(0, "join", "a")
    with pytest.raises(ShardUnavailable, match="nobody/shard-0 is gone"):
        call.result(WAIT_S)
    assert call.done()


@WITH_RAY
@pytest.mark.slow
def test_ray_that_was_imported_before_is_refused():
    code = "import ray\nfrom accel_rl.gorila.ray_session import local_ray\nwith local_ray(): pass"
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "RunError: Ray was imported before its session was confined" in done.stderr
