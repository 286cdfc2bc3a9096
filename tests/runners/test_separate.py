"""A rank that samples alone and one that learns alone, over one replay, do together what one rank does."""

from dataclasses import replace

import pytest
import torch

from accel_rl.config.resolved import resolve
from accel_rl.config.train import default_config
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.ranks.context import SingleRank
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.separate import UPDATES_A_CYCLE
from accel_rl.runners.trainer import Trainer


class OneRole(SingleRank):
    def __init__(self, samples, learns, replay=None):
        self.samples, self.learns, self._replay = samples, learns, replay

    def begin(self, algo):
        algo.begin()
        algo.replay = algo.replay if self._replay is None else self._replay


@pytest.fixture
def build(tmp_path):
    def build(context):
        config = default_config("dqn")
        config = replace(
            config,
            env=replace(config.env, id="tests.catch:make"),
            algo=replace(config.algo, network="a3c", replay=replace(config.algo.replay, size=2_000, start=0)),
            sampler=replace(config.sampler, envs=4, engine="in-process"),
            evaluation=replace(config.evaluation, interval=0),
            env_steps=10_000,
            torch_threads=1,
        )
        config = resolve(config)
        folder = RunFolder.create(tmp_path / str(len(built)), config)
        built.append(Trainer(config, RankPlan.resolve(config), folder, None, context))
        built[-1]._open()
        return built[-1]

    built = []
    yield build
    for trainer in built:
        trainer._close()


def test_one_samples_and_another_learns(build):
    actor = build(OneRole(True, False))
    learner = build(OneRole(False, True, actor.learner.algo.replay))
    before = learner.learner.flat.data.clone()
    learner._cycle()
    assert (learner.at.env_steps, learner.learner.updates) == (0, 0), "the replay is empty"
    for _ in range(10):
        actor._cycle()
    T, B = actor.plan.sampler.T, 4
    assert actor.at.env_steps == 10 * T * B and actor.learner.updates == 0
    assert len(actor.learner.algo.replay) > 0
    learner._cycle()
    assert (learner.at.env_steps, learner.learner.updates) == (0, UPDATES_A_CYCLE)
    assert not torch.equal(learner.learner.flat.data, before)
    assert torch.equal(actor.learner.flat.data, before)


def test_a_learner_alone_has_no_environments(build):
    learner = build(OneRole(False, True))
    assert learner.sampler.B == 0 and learner.sampler.episodes.count == 0
    with pytest.raises(AssertionError):
        learner.sampler.collect(learner.learner.algo.agent)
    learner.saver.save()
    learner.saver.restore(learner.saver.state_dict())
