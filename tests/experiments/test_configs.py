"""Every experiment is a run that could be begun."""

import pytest

from accel_rl.config import TrainConfig
from experiments import cpu, cule, stooke


@pytest.mark.parametrize(
    "make",
    [cpu.pong_a2c, cpu.pong_ppo, cpu.cartpole_a2c, cpu.cartpole_impala, cpu.cartpole_ppo, cule.table_3]
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
