"""Gorila's global replay stores and draws the steps of all members. In the tests, the global replay is an object in the
test's process."""

from dataclasses import replace

import numpy as np
import torch

from accel_rl.gorila.global_replay import GlobalReplay, from_message, to_message
from accel_rl.gorila.setup import Setup
from accel_rl.gorila.shard import tensor_over
from accel_rl.replays.ring import ReplayBatch
from accel_rl.settings.resolved import fill_in
from tests.gorila.random_kills import catch
from tests.replays.made_up import Simulators


class OfPictures(GlobalReplay):
    """A global replay whose pictures have the shape of `spec`."""

    def __init__(self, sources, spec, B):
        config = catch(1000)
        config = replace(config, sampler=replace(config.sampler, envs=B))
        super().__init__(Setup(fill_in(config).to_dict(), "", "run"), sources)
        self._spec = spec


def test_a_rollout_arrives_whole():
    simulators = Simulators(B=3, T=20, seed=1)
    for _ in range(5):
        sent = simulators.rollout()
        got = from_message(to_message(sent))
        for name in ("frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid"):
            assert torch.equal(getattr(got, name), getattr(sent, name)), name
        assert torch.equal(got.final_frames[got.ended], sent.final_frames[sent.ended])
        assert got.stack == sent.stack


def test_it_draws_the_transitions_of_all_members_evenly():
    members = [Simulators(B=2, T=10, seed=seed) for seed in (1, 2)]
    replay = OfPictures(2, members[0].spec, B=2)
    assert replay.sample(4) == (0, {})
    own = [replay._replay_config.build(replay._spec, 2, replay._returns, "cpu", 0) for _ in members]
    rollouts = [1, 3]  # rollouts by member
    for member, n in enumerate(rollouts):
        for _ in range(n):
            rollout = members[member].rollout()
            own[member].append(rollout)
            size = replay.append(member, 0, to_message(rollout))
    assert size == replay.size() == sum(map(len, own))
    known = [transitions(r.ring.batch(*all_cells(r))) for r in own]
    drawn = [0, 0]
    for _ in range(100):
        n, batch = replay.sample(16)
        assert n == size and all(len(x) == 16 for x in batch.values())
        for t in transitions(ReplayBatch(**{name: tensor_over(x) for name, x in batch.items()})):
            of = [t in k for k in known]
            assert any(of)
            drawn[of.index(True)] += 1
    expected = len(own[1]) / size
    assert abs(drawn[1] / sum(drawn) - expected) < 0.05


def test_the_steps_of_a_new_process_do_not_follow_those_of_the_old_one():
    simulators = Simulators(B=2, T=10, seed=1)
    replay = OfPictures(1, simulators.spec, B=2)
    for _ in range(3):
        before = replay.append(0, 0, to_message(simulators.rollout()))
    after = replay.append(0, 1, to_message(simulators.rollout()))
    assert after < before
    assert replay.append(0, 1, to_message(simulators.rollout())) > after


def all_cells(replay):
    """Return all cells (t, b) that a replay can draw, as found in 50 draws of 64 cells, with weights of 1."""
    cells = torch.unique(torch.cat([replay.selection.draw(64)[0] for _ in range(50)]))
    return cells, torch.ones(len(cells))


def transitions(batch):
    parts = (batch.obs_tm1, batch.a_tm1, batch.r_t, batch.discount_t, batch.obs_t)
    return {b"".join(np.ascontiguousarray(p[i].numpy()).tobytes() for p in parts) for i in range(len(batch.a_tm1))}
