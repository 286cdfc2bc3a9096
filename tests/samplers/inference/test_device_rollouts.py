"""While the sampler waits for actions from a GPU, other Python threads can run.

A sampler that has nothing left to copy waits for the GPU outside Python, with the GIL released.
"""

import sys
import threading

import pytest
import torch

from accel_rl.samplers.inference.device_rollouts import DeviceRollouts
from tests.env_settings import env_of
from tests.gpu.runs import declare_parts
from tests.samplers.conftest import make_agent, make_sampler

MOST = 100_000


class Slow:
    """A fake GPU event, which is reached when `is_done()` returns true."""

    def __init__(self, is_done=lambda: False):
        self.is_done, self.queries, self.waits = is_done, 0, 0

    def query(self):
        self.queries += 1
        assert self.queries < MOST, "no other thread had the GIL"
        return self.is_done()

    def synchronize(self):
        self.waits += 1


def rollouts_waiting_for(event):
    rollouts = DeviceRollouts.__new__(DeviceRollouts)
    rollouts._actions_copied = [event]
    return rollouts


@pytest.fixture
def slow_switches():
    """Set Python's switch interval to 1,000 s, so that threads keep the GIL until they release it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000.0)
    yield
    sys.setswitchinterval(before)


def test_another_thread_works_during_the_wait(slow_switches):
    began, made = threading.Event(), [0]

    def work():
        began.set()
        for _ in range(20):
            made[0] += 1
            torch.zeros(1 << 18).sum()  # torch's sum releases the GIL.

    thread = threading.Thread(target=work)
    event = Slow(lambda: made[0] == 20)
    thread.start()
    began.wait()
    rollouts_waiting_for(event).await_actions(0, lambda: True)
    thread.join()
    assert event.waits == 1


def test_no_query_follows_the_last_copy():
    event, calls = Slow(), []
    rollouts_waiting_for(event).await_actions(0, lambda: calls.append(0) or len(calls) < 3)
    assert (event.queries, len(calls), event.waits) == (3, 3, 1)


def on_gpu(groups):
    env = env_of(game="pong")
    sampler = make_sampler(env, 4, groups, 0, device="sim:0")
    declare_parts(sampler)
    agent = make_agent(env)
    agent.model.to("sim:0")
    return sampler, agent


def test_first_frames_are_copied_beside_the_update_from_the_last_rollout(simulated_gpu):
    """The first frames of a rollout overwrite a buffer that earlier updates read, so that the copy waits for these
    updates."""
    sampler, agent = on_gpu(groups=2)
    gpu, now = sampler.server._gpu, torch.sim.current_stream("sim:0")
    update = torch.ones(4, device="sim:0")
    for buffer in (1, 0, 1):
        sampler.collect(agent)
        update.mul_(2)
        collected = now.release()[now.stream_id] - 1
        update.mul_(2)
        updated = now.release()[now.stream_id]
        gpu.begin(buffer, torch.zeros(sampler.T, sampler.B))
        assert collected == gpu._copying.clock[now.stream_id] < updated
        copied = gpu._copying.epoch - 1
        assert now.clock.get(gpu._copying.stream_id, -1) < copied - 1
        for group in range(2):
            gpu.fetch(buffer, 0, group)
        assert now.clock[gpu._copying.stream_id] == copied
    sampler.close()


@pytest.mark.parametrize("groups", [1, 2])
def test_a_sampler_whose_next_group_is_ready_polls_once(simulated_gpu, groups, monkeypatch):
    """With one group of environments, or after a rollout's last group, the sampler has nothing to copy while it
    waits."""
    waits, await_actions = [], DeviceRollouts.await_actions

    def counted(self, group, meanwhile):
        asked = []
        await_actions(self, group, lambda: asked.append(meanwhile()) or asked[-1])
        waits.append(asked)

    monkeypatch.setattr(DeviceRollouts, "await_actions", counted)
    sampler, agent = on_gpu(groups)
    sampler.collect(agent)
    sampler.close()
    assert len(waits) == 5 * groups and all(len(asked) <= 1 and not any(asked) for asked in waits)
