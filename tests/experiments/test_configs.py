"""Every experiment is a run that could be begun."""

import pytest

from accel_rl.config import TrainConfig
from experiments import cpu, cule, stooke


@pytest.mark.parametrize(
    "make",
    [cpu.pong_a2c, cpu.pong_ppo, cpu.cartpole_a2c, cpu.cartpole_impala, cpu.cartpole_ppo, cule.table_3]
    + [cpu.pong_rainbow, cpu.cartpole_dqn, cpu.cartpole_c51, cpu.cartpole_rainbow, stooke.dqn_scaling]
    + [stooke.c51_scaling, stooke.rainbow_512, stooke.secondary_learner, stooke.update_rules]
    + [cule.one_batch, cule.five_batches, stooke.a2c_scaling, stooke.ppo_scaling],
)
def test_it_can_be_begun(make):
    config = make()
    config.check()
    assert TrainConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("envs", [8, 16, 32, 64, 128, 256, 512])
def test_ppo_keeps_its_batch(envs):
    s = stooke.ppo_scaling(envs=envs).sampler
    assert s.envs * s.horizon == 2048


@pytest.mark.parametrize(
    ("make", "match"), [(lambda: stooke.ppo_scaling(envs=7), "2,048"), (lambda: cule.table_3(batches=3), "Table 3")]
)
def test_other_sizes_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("batch_size", "rate"), [(32, 2.5e-4), (64, 2.5e-4), (512, 7.5e-4), (1024, 15e-4), (2048, 15e-4)]
)
def test_dqns_step_sizes_are_the_papers(batch_size, rate):
    assert stooke.dqn_scaling(batch_size=batch_size).algo.learning_rate == rate
    assert stooke.secondary_learner(batch_size=512, secondary=batch_size).secondary.rate == rate


def test_c51_has_one_step_size_from_256_on():
    assert [stooke.c51_scaling(batch_size=n).algo.learning_rate for n in (32, 256, 2048)] == [2.5e-4, 4.2e-4, 4.2e-4]
