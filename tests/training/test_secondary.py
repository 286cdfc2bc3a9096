"""The second learner of a run uses the first learner's replay and initial parameters, but draws its own batches."""

from dataclasses import replace

import pytest
import torch

from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.registry import NAMES_WITH_REPLAY
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import SecondaryConfig, TrainConfig, default_config
from accel_rl.text.errors import ConfigError
from accel_rl.training.build_trainer import build_trainer


def config(algorithm="dqn", **secondary) -> TrainConfig:
    base = default_config(algorithm)
    replay = replace(base.algo.replay, size=500, start=40)
    algo = replace(base.algo, replay=replay, batch_size=16, intensity=2.0, target_interval=50)
    return replace(
        base,
        env=replace(base.env, id="CartPole-v1"),
        algo=algo,
        sampler=replace(base.sampler, envs=4, horizon=4, engine="in-process"),
        secondary=SecondaryConfig(**secondary),
        evaluation=replace(base.evaluation, interval=0),
        env_steps=10_000,
        torch_threads=1,
    )


@pytest.fixture
def trainer(tmp_path):
    def build(**secondary):
        c = config(**secondary)
        c = resolve(c)
        built.append(build_trainer(c, RankPlan.resolve(c), RunFolder.create(tmp_path / str(len(built)), c)))
        return built[-1]

    built = []
    yield build
    for t in built:
        t.sampler.close()


def cycles(trainer, n):
    return [m for _ in range(n) for m in trainer.schedule.cycle()[1]]


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow"])
def test_it_begins_where_the_first_does_and_uses_as_much_data(trainer, algorithm):
    t = trainer(algorithm=algorithm, batch=64, rate=1e-5)
    first, second = t.learner, t.secondary
    assert torch.equal(first.flat.data, second.flat.data)
    for a, b in zip(first.algo.target.parameters(), second.algo.target.parameters(), strict=True):
        assert torch.equal(a, b)
    assert second.algo.replay.ring is first.algo.replay.ring
    metrics = cycles(t, 40)
    assert first.algo.now.env_steps == second.algo.now.env_steps == 640
    assert (first.updates * 16, second.updates * 64) == pytest.approx((1200, 1200), abs=64)
    assert {k.startswith("secondary/") for m in metrics for k in m.names} == {True, False}
    assert second.columns()["learning_rate"] == 1e-5 and not torch.equal(first.flat.data, second.flat.data)


def test_it_changes_nothing_for_the_first(trainer):
    alone, watched = trainer(), trainer(batch=32)
    for t in (alone, watched):
        cycles(t, 20)
    assert torch.equal(alone.learner.flat.data, watched.learner.flat.data)
    assert alone.secondary is None


def test_it_is_saved_and_goes_on(trainer):
    one, other = trainer(batch=32), trainer(batch=32)
    cycles(one, 20)
    one.counters.env_steps = 320
    other.saver.restore(one.saver.state_dict())
    for t in (one, other):
        cycles(t, 10)
    assert torch.equal(one.secondary.flat.data, other.secondary.flat.data)
    assert torch.equal(one.learner.flat.data, other.learner.flat.data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"secondary": SecondaryConfig(-1)}, "--secondary.batch -1"),
        ({"secondary": SecondaryConfig(8, -0.1)}, "--secondary.rate -0.1"),
    ],
)
def test_impossible_ones(change, message):
    with pytest.raises(ConfigError, match=message):
        resolve(replace(config(), **change))


def test_only_replays_can_be_shared():
    base = default_config("a2c")
    c = replace(base, env=replace(base.env, id="CartPole-v1"), secondary=SecondaryConfig(8))
    with pytest.raises(ConfigError, match=f"only {NAMES_WITH_REPLAY} have"):
        resolve(c)
