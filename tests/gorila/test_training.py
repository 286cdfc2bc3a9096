"""Whole runs whose updates are made by shards in the same process."""

from dataclasses import replace

import pytest
import torch

from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.gorila.transport import InProcess
from accel_rl.settings.gorila_settings import ParameterServerConfig
from accel_rl.training.context import Exchange, RankContext
from tests.golden.runs import POLE, config
from tests.gorila.made_up import EXACT
from tests.marks import slow

CYCLES = 14
RETURNS = {"v_min": 0.0, "v_max": 20.0}
RUNS = {
    "dqn": config("dqn", POLE, horizon=4),
    "dqn, adagrad": config("dqn", POLE, horizon=4, optimizer="adagrad", learning_rate=1e-2, clip_grad_norm=1.0),
    "c51": config("c51", POLE, horizon=4, **RETURNS),
    "rainbow": config("rainbow", POLE, horizon=4, noisy=True, **RETURNS),
    "a2c, rmsprop": config("a2c", POLE, optimizer="rmsprop-torch"),
    "a2c, adam": config("a2c", POLE, optimizer="adam", learning_rate_schedule="linear"),
    "ppo": config("ppo", POLE, horizon=16, minibatch=32, epochs=2, clip_schedule="linear"),
}
QUICK = ("dqn, adagrad", "rainbow", "a2c, adam", "ppo")
THREE_SHARDS = ("dqn, adagrad", "c51", "a2c, rmsprop", "ppo")


class OnShards(Exchange):
    """The exchange of a learner that updates through shards: its own, or those of another learner's transport."""

    captures_updates = False

    def __init__(self, learner="learner-0", of=None, **settings):
        self.learner, self.of, self.settings = learner, of, ParameterServerConfig(**{**EXACT, **settings})

    def gradient_sync(self, flat, algo):
        self.settings.check()
        return ShardedSync(flat, algo.build_optimizer, algo.config.max_grad_norm, self.settings, self.learner)

    def open(self, gradient_sync, env_steps):
        self.transport = InProcess(gradient_sync.build_shards()) if self.of is None else self.of.transport
        gradient_sync.connect(self.transport, publish=self.of is None)


@pytest.fixture
def build(open_trainer):
    """build(run, exchange, state): an open trainer of one rank."""
    return lambda run, exchange=None, state=None: open_trainer(run, RankContext(exchange=exchange or Exchange()), state)


def cycles(trainer, n=CYCLES):
    """Make n cycles; returns the metrics of each."""
    found = []
    for _ in range(n):
        trainer._cycle()
        found.append(trainer.reporter.recorder.means())
    return found


def shown(metrics):
    """Text, in which NaN equals NaN."""
    return [repr(sorted(m.items())) for m in metrics]


@pytest.mark.parametrize(
    ("name", "shards"),
    [pytest.param(name, 1, marks=() if name in QUICK else pytest.mark.slow) for name in RUNS]
    + [slow(name, 3) for name in THREE_SHARDS],
)
def test_one_learner_equals_local_training_bit_for_bit(build, name, shards):
    local = build(RUNS[name])
    expected = cycles(local)
    trainer = build(RUNS[name], OnShards(shards=shards))
    got, sync = cycles(trainer), trainer.learner.gradient_sync
    assert local.learner.updates == trainer.learner.updates >= 10
    assert shown(got) == shown(expected)
    assert torch.equal(trainer.learner.flat.data, local.learner.flat.data)
    state = sync.state_dict()
    for n, x in local.learner.gradient_sync.guarded.optimizer.state_dict().items():
        assert torch.equal(state["optimizer"][n], x) if isinstance(x, torch.Tensor) else {x} == {*state["optimizer"][n]}
    assert sync.counts.accepted == trainer.learner.updates * shards and sync.counts.stale == 0
    assert [shard["counts"]["delay"] for shard in state["shards"]] == [0] * shards


@pytest.mark.parametrize(
    ("name", "in_flight"),
    [
        slow("dqn, adagrad", 0),
        ("dqn, adagrad", 2),
        ("a2c, adam", 0),
        slow("a2c, adam", 2),
    ],
)
def test_a_resumed_run_equals_the_uninterrupted_one(build, name, in_flight):
    settings = {"shards": 3, "in_flight": in_flight, "max_delay": 2, "outlier_deviations": 4.0}
    whole = build(RUNS[name], OnShards(**settings))
    cycles(whole)
    whole.saver.save()
    state = whole.saver.checkpoints.load_latest()[1]
    resumed = build(RUNS[name], OnShards(**settings), state)
    assert shown(cycles(whole)) == shown(cycles(resumed))
    assert torch.equal(whole.learner.flat.data, resumed.learner.flat.data)
    assert whole.learner.gradient_sync.counts == resumed.learner.gradient_sync.counts


def interleaved(build, name, in_flight):
    """Two learners of other environments and other replays on the same shards; returns what they made of them."""
    settings = {"shards": 3, "in_flight": in_flight, "max_delay": 100}
    first = OnShards("first", **settings)
    exchanges = first, OnShards("second", first, **settings)
    trainers = [build(replace(RUNS[name], seed=i), exchange) for i, exchange in enumerate(exchanges)]
    assert torch.equal(trainers[0].learner.flat.data, trainers[1].learner.flat.data)  # the first learner's
    metrics = [cycles(trainer, 1) for _ in range(CYCLES) for trainer in trainers]
    updates = sum(trainer.learner.updates for trainer in trainers)
    counts = [trainer.learner.gradient_sync.state_dict()["counts"] for trainer in trainers]
    state = trainers[0].learner.gradient_sync.state_dict()
    assert [shard["updates"] for shard in state["shards"]] == [updates] * 3
    assert [c["accepted"] for c in counts] == [3 * trainer.learner.updates for trainer in trainers]
    return shown(m for part in metrics for m in part), state["parameters"]


@pytest.mark.parametrize("in_flight", [slow(0), 2])
@pytest.mark.parametrize("name", ["dqn, adagrad", slow("a2c, rmsprop")])
def test_two_learners_that_take_turns_repeat_bit_for_bit(build, name, in_flight):
    (metrics, parameters), (again, same) = (interleaved(build, name, in_flight) for _ in range(2))
    assert metrics == again and torch.equal(parameters, same) and parameters.isfinite().all()
