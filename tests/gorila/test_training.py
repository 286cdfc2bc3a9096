"""Whole training runs whose parameters are updated by parameter shards in the same process."""

import pytest
import torch

from accel_rl.settings.gorila_settings import ParameterServerConfig
from accel_rl.training.context import Exchange, RankContext
from tests.golden.runs import POLE, SEQUENCES, config
from tests.gorila.made_up import EXACT, InProcess, SavesShards
from tests.marks import slow

CYCLES = 14
RETURNS = {"v_min": 0.0, "v_max": 20.0}
RUNS = {
    "dqn": config("dqn", POLE, horizon=4),
    "dqn, adagrad": config("dqn", POLE, horizon=4, optimizer="adagrad", learning_rate=1e-2, clip_grad_norm=1.0),
    "c51": config("c51", POLE, horizon=4, **RETURNS),
    "qrdqn": config("qrdqn", POLE, horizon=4, quantiles=7),
    "iqn": config("iqn", POLE, horizon=4, quantiles=7, target_quantiles=5, value_quantiles=4),
    "r2d2": config("r2d2", POLE, horizon=4, **SEQUENCES),
    "rainbow": config("rainbow", POLE, horizon=4, noisy=True, **RETURNS),
    "a2c, rmsprop": config("a2c", POLE, optimizer="rmsprop-torch"),
    "a2c, adam": config("a2c", POLE, optimizer="adam", learning_rate_schedule="linear"),
    "ppo": config("ppo", POLE, horizon=16, minibatch=32, epochs=2, clip_schedule="linear"),
}
QUICK = ("dqn, adagrad", "a2c, adam")
THREE_SHARDS = ("dqn, adagrad", "c51", "a2c, rmsprop", "ppo")


class OnShards(Exchange):
    """The exchange of a learner whose gradients are pushed to parameter shards in this process."""

    captures_updates = False

    def __init__(self, **settings):
        self.settings = ParameterServerConfig(**{**EXACT, **settings})

    def gradient_sync(self, flat, algo):
        self.settings.check()
        return SavesShards(flat, algo.build_optimizer, algo.config.max_grad_norm, self.settings)

    def open(self, gradient_sync, env_steps):
        gradient_sync.connect(InProcess(gradient_sync.build_shards()))


@pytest.fixture
def build(open_trainer):
    """Return a function build(run, exchange, state) that opens the trainer of a run with one rank."""
    return lambda run, exchange=None, state=None: open_trainer(run, RankContext(exchange=exchange or Exchange()), state)


def cycles(trainer, n=CYCLES):
    """Train for n training cycles, and return the metrics of each cycle."""
    found = []
    for _ in range(n):
        trainer._cycle()
        found.append(trainer.reporter.recorder.means())
    return found


def shown(metrics):
    """Return the metrics as text, so that NaN equals NaN."""
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
    assert sync.counts["accepted"] == trainer.learner.updates * shards and sync.counts["stale"] == 0
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
    whole.saver.finish()
    state = whole.saver.checkpoints.load_latest()[1]
    resumed = build(RUNS[name], OnShards(**settings), state)
    assert shown(cycles(whole)) == shown(cycles(resumed))
    assert torch.equal(whole.learner.flat.data, resumed.learner.flat.data)
    assert whole.learner.gradient_sync.counts == resumed.learner.gradient_sync.counts
