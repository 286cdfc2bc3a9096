"""A rank that only samples and a rank that only learns have together the same results as one ordinary rank."""

from dataclasses import replace

import pytest
import torch

from accel_rl.settings.train import default_config
from accel_rl.training.context import Exchange, RankContext
from accel_rl.training.separate import UPDATES_A_CYCLE


class SharedReplay(Exchange):
    def __init__(self, replay=None):
        self._replay = replay

    def begin(self, algo):
        algo.begin()
        algo.replay = algo.replay if self._replay is None else self._replay


def one_role(samples, learns, replay=None):
    return RankContext(exchange=SharedReplay(replay), samples=samples, learns=learns)


@pytest.fixture
def build(open_trainer):
    """build(context) returns an open trainer of a rank that plays Catch."""
    base = default_config("dqn")
    config = replace(
        base,
        env=replace(base.env, id="tests.catch:make"),
        algo=replace(base.algo, network="a3c", replay=replace(base.algo.replay, size=2_000, start=0)),
        sampler=replace(base.sampler, envs=4, engine="in-process"),
        evaluation=replace(base.evaluation, interval=0),
        env_steps=10_000,
        torch_threads=1,
    )
    return lambda context: open_trainer(config, context)


def test_one_samples_and_another_learns(build):
    actor = build(one_role(True, False))
    learner = build(one_role(False, True, actor.learner.algo.replay))
    before = learner.learner.flat.data.clone()
    learner._cycle()
    assert (learner.counters.env_steps, learner.learner.updates) == (0, 0), "the replay is empty"
    for _ in range(10):
        actor._cycle()
    T, B = actor.plan.sampler.T, 4
    assert actor.counters.env_steps == 10 * T * B and actor.learner.updates == 0
    assert len(actor.learner.algo.replay) > 0
    learner._cycle()
    assert (learner.counters.env_steps, learner.learner.updates) == (0, UPDATES_A_CYCLE)
    assert not torch.equal(learner.learner.flat.data, before)
    assert torch.equal(actor.learner.flat.data, before)


def test_a_learner_alone_has_no_environments(build):
    learner = build(one_role(False, True))
    assert learner.sampler.B == 0 and learner.sampler.episodes.count == 0
    with pytest.raises(AssertionError):
        learner.sampler.collect(learner.learner.algo.agent)
    learner.saver.save()
    learner.saver.finish()
    learner.saver.restore(learner.saver.state_dict())
