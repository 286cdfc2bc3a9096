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
from accel_rl.gorila.shard import PushCounts
from accel_rl.gorila.shard_actors import RayShards
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.text.errors import ConfigError
from accel_rl.training.context import Exchange, RankContext
from accel_rl.training.trainer import Trainer
from tests.gorila.made_up import connected, learn, sync_of
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
def test_a_run_on_actors_equals_local_training_bit_for_bit(start, tmp_path, name="dqn, adagrad"):
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
def test_ray_that_was_imported_before_is_refused():
    code = "import ray\nfrom accel_rl.gorila.ray_session import local_ray\nwith local_ray(): pass"
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "RunError: Ray was imported before its session was confined" in done.stderr
