"""Every experiment is a run that could be begun."""

from typing import Any

import pytest

from accel_rl.config import TrainConfig
from experiments import cpu, cule, daley, sampling, stooke
from launch.grid import find_grid
from launch.settings import scaled


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


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("stooke:a2c_scaling", 6 * 6 * 2),
        ("stooke:ppo_scaling", 6 * 7 * 2),
        ("stooke:dqn_scaling", 6 * 3 * 2),
        ("stooke:c51_scaling", 6 * 5 * 2),
        ("stooke:rainbow_512", 56 * 2),
        ("stooke:secondary_learner", 3 * 2),
        ("stooke:update_rules", 8 * 2),
        ("stooke:a3c", 6 * 6 * 2),
        ("stooke:appo", 6 * 4 * 3 * 2),
        ("stooke:a2c_ranks", 6 * 4 * 2),
        ("stooke:ppo_ranks", 6 * 4 * 2),
        ("stooke:async_dqn", 6 * 3 * 2),
        ("stooke:figure_5", 6 * 4 * 2),
        ("stooke:figure_10", 49 * 3 * 2),
        ("stooke:figure_11", 49 * 3 * 2),
        ("stooke:figure_12", 56 * 3 * 2),
        ("stooke:table_2", 16),
        ("stooke:table_3", 12),
        ("daley:speed_test", 14 * 5),
        ("daley:suite", 49),
        ("cpu:step_sizes", 12),
    ],
)
def test_a_sweep_can_be_begun_at_full_size_and_scaled(name, runs):
    """A run of each setting is checked: games and seeds differ in what they play alone."""
    found = find_grid(f"experiments.{name}")
    assert len(found.members) == runs
    seen = {}
    for m in found.members:
        seen.setdefault(tuple(v for k, v in m.labels.items() if k not in ("game", "seed")), m.config)
    for config in seen.values():
        config.check()
        scaled(config, 0.01).check()


def test_daley_and_amatos_hyperparameters_are_table_5():
    config = daley.suite()
    algo: Any = config.algo
    assert (algo.batch_size, algo.replay.size, algo.target_interval, algo.gamma) == (32, 1_000_000, 10_000, 0.99)
    assert (algo.batch_size / algo.intensity, algo.replay.start, algo.learning_rate) == (4, 50_000, 2.5e-4)
    assert (algo.rule, algo.rule_decay, algo.rule_epsilon) == ("rmsprop-centered", 0.95, 0.01)
    assert (config.evaluation.interval, config.evaluation.episodes, algo.epsilon_evaluation) == (250_000, 30, 0.05)
    assert config.schedule == "concurrent" and config.sampler.groups == 1 and not config.sampler.unsynchronized


def test_the_fourteen_variants_are_table_1s():
    found = {
        tuple(m.labels[k] for k in ("threads", "variant")) for m in find_grid("experiments.daley:speed_test").members
    }
    assert len(found) == 14 and ("1", "both") not in found and ("8", "standard") in found
    config = daley.speed_test(4, "standard")
    assert config.sampler.unsynchronized and config.schedule == "lockstep" and config.sampler.workers == 4
    assert config.env_steps == 1_000_000 and config.evaluation.interval == 0
    with pytest.raises(ValueError, match="variant='fast'"):
        daley.dqn(variant="fast")


def test_sampling_experiments_are_settings_of_the_benchmark(capsys):
    from accel_rl.arguments import parse
    from benchmarks.sampler import Options

    o = parse(Options, sampling.figure_2(sampling.Options(scale=0.5, workers=(1, 2))), "", "")
    assert o.envs_per_worker == (2, 4, 8, 16, 32, 64) and o.workers == (1, 2) and o.seconds == 2.0
    o = parse(Options, sampling.table_1(sampling.Options()), "", "")
    assert o.horizon == (5,) and o.envs_per_worker == (2, 4, 8, 16) and o.nets == ("a3c",)
    assert sampling.main(["figure_3"]) == 2 and "figure_2" in capsys.readouterr().err


def test_learners_are_the_papers():
    many = stooke.a3c(ranks=32)
    assert (many.group.ranks, many.group.update, many.sampler.envs) == (32, "async", 16)
    appo, ppo = stooke.appo(local_updates=4), stooke.ppo_scaling(envs=8)
    algo: Any = appo.algo
    assert algo.learning_rate == ppo.algo.learning_rate / 4 and algo.learning_rate_schedule == "constant"
    assert (appo.group.ranks, appo.group.local_updates, appo.group.pull_steps) == (8, 4, 64)
    table = stooke.table_2(gpus=8, algorithm="ppo")
    assert (table.sampler.envs, table.group.ranks, table.group.update) == (64, 8, "all-reduce")
    assert stooke.table_2(gpus=8, algorithm="a3c").sampler.envs == 16  # of each
    figure = {m.name: m.config for m in stooke.figure_10().only({"game": ["pong"], "seed": ["0"]}).members}
    assert figure["pong,a2c-256env,seed=0"] == stooke.a2c_scaling(envs=256)
    assert figure["pong,a3c-16env-16,seed=0"] == stooke.a3c(ranks=16)
