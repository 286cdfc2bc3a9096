"""An asynchronous rank pulls central parameters at the right steps of a rollout, and then pushes the right gradient."""

import os
import threading
import time

import pytest
import torch

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.algorithm import advance
from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.envs.make import make_spec
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from accel_rl.samplers.sampler import Sampler
from tests.env_settings import env_of

T, B = 8, 8


class Counts:
    """Fake central parameters, which record at each pull how often the first group has acted."""

    def __init__(self):
        self.refreshed, self.acts, self.pulled_at = 0, 0, []

    def beat(self):
        pass

    def pull_now(self):
        self.refreshed += 1
        self.pulled_at.append(self.acts)
        return True


@pytest.mark.parametrize("groups", [1, 2])
def test_each_pull_comes_the_same_number_of_acts_after_the_last(groups):
    """With a pull every 64 steps (Stooke & Abbeel 2018, section 5.3), pulls precede the steps 0, 64, 128, 192 and
    256."""
    central = Counts()
    agent = PullingAgent(object(), central, steps=64)
    agent.begin()
    for _ in range(4 * 64 + 1):
        for g in range(groups):
            agent.before_act(slice(8 * g, 8 * g + 8))
        central.acts += 1
    assert central.pulled_at == [0, 64, 128, 192, 256]


def test_no_pull_while_another_thread_acts():
    """A pull waits until the inference thread of another group has finished acting."""
    central = Counts()
    agent = PullingAgent(object(), central, steps=1)
    agent.before_act(slice(0, 4))
    began, end, order = threading.Event(), threading.Event(), []

    def act():
        with agent.acting():
            began.set()
            end.wait(10)
            order.append("acted")

    def pull():
        agent.before_act(slice(0, 4))
        order.append("pulled")

    threads = [threading.Thread(target=act), threading.Thread(target=pull)]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    time.sleep(0.1)
    assert central.pulled_at == []
    end.set()
    for thread in threads:
        thread.join(10)
    assert order == ["acted", "pulled"] and len(central.pulled_at) == 1


def test_no_act_begins_during_a_pull():
    class Slow(Counts):
        def pull_now(self):
            pulling.set()
            time.sleep(0.1)
            order.append("pulled")
            return super().pull_now()

    pulling, order = threading.Event(), []
    agent = PullingAgent(object(), Slow(), steps=1)
    agent.before_act(slice(0, 4))
    thread = threading.Thread(target=agent.before_act, args=(slice(0, 4),))
    thread.start()
    assert pulling.wait(10)
    with agent.acting():
        order.append("acted")
    thread.join(10)
    assert order == ["pulled", "acted"]


class Interrupted(PullingAgent):
    """An agent that pulls parameters. Another rank pushes a random gradient before the call number `at` of this
    agent."""

    def __init__(self, agent, gradient_sync, steps, other, at):
        super().__init__(agent, gradient_sync, steps)
        self.other, self.at, self.acts = other, at, 0

    def before_act(self, b):
        if self.acts == self.at:
            g = torch.Generator().manual_seed(1)
            self.other.flat.grad.copy_(torch.randn(len(self.other.flat.grad), generator=g))
            self.other.step(1e-2, torch.zeros(()))
        self.acts += 1
        super().before_act(b)


@pytest.fixture
def ranks():
    """Return A2C on Pong as (algorithm, gradient sync of this rank, gradient sync of another rank, sampler)."""
    env, fd = env_of(game="pong"), os.memfd_create("central")
    spec, found = make_spec(env, training=True), []
    for rank in range(2):
        torch.manual_seed(0)
        algo = A2C(A2CConfig(), spec, T=T, B=B)
        gradient_sync = LockedChunks(FlatParameters(algo.agent.model), lambda n: Adam(n), None, 3, rank)
        gradient_sync.connect(
            Central(gradient_sync.parts, gradient_sync.states(), fd, create=not rank), publish=not rank
        )
        found.append((algo, gradient_sync))
    sampler = Sampler(InProcessEngine(EngineSetup(env, spec, Grouping(B, 2, 1), T, 1)), spec, 1)
    yield *found[0], found[1][1], sampler
    sampler.close()
    os.close(fd)


def plain_gradient(algo, flat, rollout):
    """Compute A2C's gradient at the current parameters by its definition, from the rollout's recorded values and
    rewards."""
    logits, value = (x.view(T, B, -1) for x in algo.agent.model(rollout.observations(0, T)))
    value = value[..., 0]
    with torch.no_grad():
        after = algo.agent.model(rollout.observations(T))[1].view(B)
    returns = torch.empty(T, B)
    for t in reversed(range(T)):
        after = rollout.reward[t].clamp(-1, 1) + 0.99 * (~rollout.terminated[t]).float() * after
        returns[t] = after
    log_pi = torch.log_softmax(logits, -1)
    taken = log_pi.gather(-1, rollout.action[..., None])[..., 0]
    entropy = -(log_pi.exp() * log_pi).sum(-1)
    loss = (-taken * (returns - rollout.recorded["value"]) + 0.25 * (returns - value) ** 2 - 0.01 * entropy).mean()
    flat.backward(loss)
    return flat.grad.clone()


@pytest.mark.parametrize("at", [None, 2 * 3], ids=["alone", "push in mid-rollout"])
def test_the_gradient_is_that_of_a_plain_computation(ranks, at):
    algo, gradient_sync, other, sampler = ranks
    agent = Interrupted(algo.agent, gradient_sync, 4, other, at)
    agent.begin()
    rollout = sampler.collect(agent)
    assert not rollout.ended.any() and agent.acts == 2 * T
    before, changed = algo.agent.value(rollout.observations(0)), at is not None
    assert torch.allclose(before, rollout.recorded["value"][0], atol=1e-4) != changed
    assert torch.allclose(algo.agent.value(rollout.observations(T - 1)), rollout.recorded["value"][-1], atol=1e-4)
    expected = plain_gradient(algo, gradient_sync.flat, rollout)
    advance(algo, rollout)
    algo.ingest(rollout)
    (batch,) = algo.batches()
    gradient_sync.backward(algo.loss(batch).total)
    error = (gradient_sync.flat.grad - expected).norm() / expected.norm()
    assert expected.norm() > 0 and error < 1e-6
