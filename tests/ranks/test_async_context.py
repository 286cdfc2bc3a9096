import os
import threading
from dataclasses import replace

import pytest
import torch

from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.patient_store import PatientStore
from accel_rl.distributed.process_group import file_store
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.planning.plan import RankPlan
from accel_rl.ranks.async_context import connect
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.build import build_sampler
from accel_rl.training.context import Exchange
from accel_rl.training.learner import Learner


class Shows:
    """An agent that records the parameters with which it acts."""

    state_size = 0

    def __init__(self, gradient_sync):
        self.gradient_sync, self.seen = gradient_sync, []

    def act(self, obs, uniform, memory=None, b=slice(None)):
        self.seen.append(float(self.gradient_sync.flat.data[0]))


@pytest.fixture
def two():
    fd = os.memfd_create("test")
    found = []
    for create in (True, False):
        torch.manual_seed(0)
        gradient_sync = LockedChunks(FlatParameters(torch.nn.Linear(9, 1)), Adam, None, 3)
        gradient_sync.connect(Central(gradient_sync.parts, gradient_sync.states(), fd, create=create), publish=create)
        found.append(gradient_sync)
    yield found
    os.close(fd)


def push(gradient_sync):
    gradient_sync.flat.grad.fill_(1.0)
    gradient_sync.step(0.1, torch.zeros(()))


def test_central_parameters_come_every_so_many_steps_of_each_group(two):
    mine, other = two
    shows = Shows(mine)
    agent = PullingAgent(shows, mine, steps=4)
    assert agent.state_size == 0
    before = float(mine.flat.data[0])
    push(other)
    after = float(other.flat.data[0])
    for _ in range(6):
        for group in (slice(0, 4), slice(4, 8)):
            agent.before_act(group)
            agent.act(None, None, None, group)
    assert before != after and shows.seen == [before] * 8 + [after] * 4


def test_a_rollout_begins_on_the_newest_parameters(two):
    mine, other = two
    shows = Shows(mine)
    agent = PullingAgent(shows, mine, steps=4)
    push(other)
    agent.begin()
    agent.before_act(slice(0, 4))
    agent.act(None, None, None, slice(0, 4))
    assert shows.seen == [float(other.flat.data[0])]


class Free(Exchange):
    """The gradient exchange of one of two ranks, which share central parameters in this process."""

    def __init__(self, rank, fd):
        self._rank, self._fd = rank, fd

    def gradient_sync(self, flat, algo):
        gradient_sync = LockedChunks(flat, algo.build_optimizer, algo.config.max_grad_norm, 3, self._rank)
        first = self._rank == 0
        gradient_sync.connect(
            Central(gradient_sync.parts, gradient_sync.states(), self._fd, create=first), publish=first
        )
        return gradient_sync


@pytest.mark.parametrize(("algorithm", "newest"), [("a2c", False), ("impala", True), ("ppo", True)])
def test_whose_parameters_a_gradient_is_of(algorithm, newest, monkeypatch):
    """Another rank updates the central parameters between a rollout and its gradient.

    A2C computes the gradient at the parameters that sampled the rollout.
    IMPALA and PPO, which correct by importance ratios, compute the gradient at the newest parameters.
    Both ranks' updates must change the central parameters.
    """
    base = default_config(algorithm)
    config = replace(base, env=replace(base.env, id="CartPole-v1"))
    config = replace(config, sampler=replace(base.sampler, engine="in-process", envs=8, horizon=config.T))
    if algorithm == "impala":
        config = replace(config, algo=replace(config.algo, window=1, batches=1))
    config = fill_in(config)
    spec, fd = config.spec, os.memfd_create("central")
    plan = RankPlan.resolve(config, device="cpu")
    sampler = build_sampler(plan.sampler, config.env, spec, config, seed=0, training=True)
    mine, other = (Learner(config, spec, "cpu", 0, Free(rank, fd)) for rank in (0, 1))
    mine.algo.ingest(sampler.collect(mine.algo.agent))
    batch = next(iter(mine.algo.batches()))
    played = mine.flat.data.clone()
    push(other.gradient_sync)
    pushed = other.flat.data.clone()
    seen, loss = [], mine.algo.loss
    monkeypatch.setattr(mine.algo, "loss", lambda batch: (seen.append(mine.flat.data.clone()), loss(batch))[1])
    mine.update(batch)
    sampler.close()
    assert not torch.equal(played, pushed) and torch.equal(seen[0], pushed if newest else played)
    own = mine.flat.data - pushed  # The change of the central parameters by this rank's update.
    assert mine.gradient_sync.central.version(0) == 3 and 0 < float(own.abs().max()) < 0.1
    other.gradient_sync.pull_now()
    assert torch.equal(other.flat.data, mine.flat.data)
    os.close(fd)


def test_a_push_counts_as_a_pull(two):
    mine, other = two
    shows = Shows(mine)
    agent = PullingAgent(shows, mine, steps=4)
    for _ in range(3):
        agent.before_act(slice(0, 4))
        agent.act(None, None, None, slice(0, 4))
    push(mine)
    here = float(mine.flat.data[0])
    push(other)
    for _ in range(4):
        agent.before_act(slice(0, 4))
        agent.act(None, None, None, slice(0, 4))
    assert shows.seen[3:] == [here] * 4


def test_ranks_connect_through_a_store():
    """Two connected ranks share counters. With three ranks, the error names the rank that did not connect."""
    base = default_config("a2c")
    fd = os.memfd_create("store")
    stores = [PatientStore(file_store(fd, 2), 10.0) for _ in range(2)]

    def config(ranks):
        return replace(base, distributed=replace(base.distributed, ranks=ranks, update="async", timeout_s=0.5))

    found = {}
    other = threading.Thread(target=lambda: found.update(other=connect(stores[1], 1, config(2))))
    other.start()
    mine = connect(stores[0], 0, config(2))
    other.join()
    mine[0].begin(1_000)
    assert found["other"][0].totals().env_steps == 1_000
    with pytest.raises(RunError, match=r"rank 2 has not joined within 0\.5 s"):
        connect(stores[0], 0, config(3))
    os.close(fd)


def test_ranks_of_two_machines_are_told_so(monkeypatch):
    """Both ranks report that rank 1 cannot open rank 0's shared memory."""
    base, fd = default_config("a2c"), os.memfd_create("store")
    config = replace(base, distributed=replace(base.distributed, ranks=2, update="async"))
    stores = [PatientStore(file_store(fd, 2), 10.0) for _ in range(2)]
    stores[1].set("memory", f"/proc/{os.getpid()}/fd/0 1 another-boot,/proc/1/fd/1 1 another-boot")
    with pytest.raises(ConfigError, match=r"rank 1 does not see rank 0's .*another machine's.*--nnodes 1"):
        connect(stores[1], 1, config)
    with pytest.raises(ConfigError, match="rank 1 does not see rank 0's"):
        connect(stores[0], 0, config)
    os.close(fd)
