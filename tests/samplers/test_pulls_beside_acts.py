"""Inference threads act simultaneously. A pull of central parameters waits until no thread acts."""

import threading
import time

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from tests.env_settings import env_of
from tests.samplers.conftest import make_agent, make_sampler

ENV = env_of(game="pong")


class Noted(CategoricalPolicyAgent):
    """An agent that acts slowly, and counts the threads that call `act` at the same time."""

    acting, most = 0, 0
    lock = threading.Lock()

    def act(self, obs, uniform, memory=None, b=slice(None)):
        with self.lock:
            self.acting += 1
            self.most = max(self.most, self.acting)
        time.sleep(0.002 if b.start else 0.003)
        found = super().act(obs, uniform, memory, b)
        with self.lock:
            self.acting -= 1
        return found


class Central:
    """Fake central parameters, whose slow pull records how many threads act meanwhile."""

    def __init__(self, agent):
        self.agent, self.refreshed, self.found, self.pulls = agent, 0, [], 0

    def beat(self):
        """Do nothing, because no other process watches this rank."""

    def pull_now(self):
        self.pulls, self.refreshed = self.pulls + 1, self.refreshed + 1
        self.found.append(self.agent.acting)
        time.sleep(0.002)
        self.found.append(self.agent.acting)
        return True


def test_a_pull_waits_for_every_thread_that_acts():
    agent = Noted(make_agent(ENV).model)
    central = Central(agent)
    pulling = PullingAgent(agent, central, steps=3)
    sampler = make_sampler(ENV, 8, 2, 2, T=40, threaded_inference=True)
    try:
        for _ in range(2):
            pulling.begin()
            sampler.collect(pulling)
    finally:
        sampler.close()
    assert agent.most == 2, "the threads never acted at once: nothing was tested"
    assert central.pulls > 10 and not any(central.found)
