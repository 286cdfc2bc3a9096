"""Every experiment is a valid configuration."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.main import main
from accel_rl.papers import daley, dalton, gorila, parr, stooke
from accel_rl.papers.stooke.table_experiments import sampling_only
from accel_rl.settings.advice import inactive
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.sweeps.grid import find_grid, scaled
from experiments import cpu, sampling


@pytest.mark.parametrize(
    "make",
    [
        cpu.pong_a2c,
        cpu.pong_ppo,
        cpu.pong_pqn,
        cpu.cartpole_pqn,
        cpu.cartpole_a2c,
        cpu.cartpole_impala,
        cpu.cartpole_ppo,
        dalton.table_3,
    ]
    + [cpu.pong_rainbow, cpu.cartpole_dqn, cpu.cartpole_c51, cpu.cartpole_rainbow, stooke.dqn_scaling]
    + [stooke.c51_scaling, stooke.rainbow_512, stooke.secondary_learner, stooke.optimizers]
    + [gorila.gorila, gorila.single, gorila.tables, gorila.pong_small, gorila.pong_small_single]
    + [parr.replay_on_the_gpu, parr.replay_in_ram, stooke.a2c_scaling, stooke.ppo_scaling],
)
def test_it_can_be_begun(make):
    config = make()
    assert not inactive(config, resolve(config))
    assert TrainConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("envs", [8, 16, 32, 64, 128, 256, 512])
def test_ppo_keeps_its_batch(envs):
    s = stooke.ppo_scaling(envs=envs).sampler
    assert s.envs * s.horizon == 2048


@pytest.mark.parametrize(
    ("make", "match"),
    [(lambda: stooke.ppo_scaling(envs=7), "2,048"), (lambda: dalton.table_3(column="gpu-7-3"), "Table 3")],
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
        ("stooke:optimizers", 8 * 2),
        ("stooke:a3c", 6 * 6 * 2),
        ("stooke:appo", 6 * 4 * 4 * 2),
        ("stooke:a2c_ranks", 6 * 4 * 2),
        ("stooke:ppo_ranks", 6 * 4 * 2),
        ("stooke:async_dqn", 6 * 3 * 2),
        ("stooke:step_size_rules", 6 * 4 * 3 * 2),
        ("stooke:step_size_warmup", 6 * 2 * 2 * 2 * 2),
        ("stooke:dqn_simulators", 6 * 4 * 2 * 2),
        ("stooke:figure_3", 6 * (6 + 6 + 7 + 4) * 2),
        ("stooke:figure_4", 6 * (3 + 5) * 2),
        ("stooke:figure_5", 6 * 4 * 2),
        ("stooke:figure_6", 2 * 2),
        ("stooke:figure_7", 2 * 2),
        ("stooke:figure_8", 2),
        ("stooke:figure_9", 8 * 2),
        ("stooke:figure_10", 49 * 3 * 2),
        ("stooke:figure_11", 49 * 3 * 2),
        ("stooke:figure_12", 56 * 3 * 2),
        ("stooke:table_1", 4 * 2),
        ("stooke:table_2", 4 + 3 + 4 + 3),
        ("stooke:table_3", 4 + 1 + 4 + 4),
        ("daley:table_1", 14 * 5),
        ("daley:table_2", 14 * 5),
        ("daley:table_3", 14 * 5),
        ("daley:table_4", 49),
        ("gorila:tables", 49 * 2 * 5),
        ("gorila:pong_small", 1),
        ("gorila:pong_small_single", 1),
        ("cpu:step_sizes", 12),
    ],
)
def test_a_sweep_can_be_begun_at_full_size_and_scaled(name, runs):
    """One run per setting is checked, because runs of a setting differ only in the game and the seed."""
    found = find_grid(f"experiments.{name}")
    assert len(found.members) == runs
    seen = {}
    for m in found.members:
        seen.setdefault(tuple(v for k, v in m.labels.items() if k not in ("game", "seed")), m.config)
    for config in seen.values():
        assert not inactive(config, resolve(config))
        for scale in (0.01, 1e-4, 1e-5):
            resolve(scaled(config, scale))


def test_daley_and_amatos_hyperparameters_are_table_5():
    config = daley.suite()
    algo: Any = config.algo
    assert (algo.batch_size, algo.replay.size, algo.target_interval, algo.gamma) == (32, 1_000_000, 10_000, 0.99)
    assert (algo.batch_size / algo.intensity, algo.replay.start, algo.learning_rate) == (4, 50_000, 2.5e-4)
    assert (algo.optimizer, algo.rmsprop_alpha, algo.optimizer_eps) == ("rmsprop-centered", 0.95, 0.01)
    assert (config.evaluation.interval, config.evaluation.episodes, algo.epsilon_evaluation) == (250_000, 30, 0.05)
    assert config.schedule == "concurrent" and config.sampler.groups == 1 and not config.sampler.inference_per_worker


def test_daley_and_amato_fill_the_replay_before_they_count():
    """In algorithm 1 of Daley & Amato, N random steps precede t = 1, and environments are not decorrelated."""
    for config, counted in ((daley.table_4(), 50_000_000), (daley.table_1(), 1_000_000)):
        assert config.env_steps - config.algo.replay.start == counted and config.algo.replay.start == 50_000
        assert config.sampler.decorrelation_steps == 0


def test_the_fourteen_variants_are_table_1s():
    found = {
        tuple(m.labels[k] for k in ("threads", "variant")) for m in find_grid("experiments.daley:speed_test").members
    }
    assert len(found) == 14 and ("1", "both") not in found and ("8", "standard") in found
    config = daley.speed_test(4, "standard")
    assert config.sampler.inference_per_worker and config.schedule == "lockstep" and config.sampler.workers == 4
    assert config.evaluation.interval == 0
    with pytest.raises(ValueError, match="variant='fast'"):
        daley.dqn(variant="fast")


def test_sampling_experiments_are_settings_of_the_benchmark(capsys, tmp_path):
    from accel_rl.parsing.arguments import parse
    from benchmarks.sampler import Options

    o = parse(Options, sampling.figure_2(sampling.Options(scale=0.5, workers=(1, 2)), "somewhere"), "", "")
    assert o.envs_per_worker == (2, 4, 8, 16, 32, 64) and o.workers == (1, 2) and o.seconds == 2.0
    assert o.policy == "somewhere" and o.one_core
    for words, said in (
        (["figure_3"], "figure_2"),
        (
            ["figure_2", "--policy", str(tmp_path / "missing")],
            f"--policy {tmp_path / 'missing'}: there is no checkpoint",
        ),
        (["figure_2", "--scale", "2"], "--scale 2"),
    ):
        assert sampling.main(words) == 2 and said in capsys.readouterr().err


def test_table_1_is_measured_with_a_barrier_and_without():
    for mode, update, envs in (("sync", "all-reduce", 64), ("async", "async", 8)):
        config = stooke.table_1(64, mode)
        assert (config.distributed.ranks, config.distributed.update, config.sampler.envs) == (8, update, envs)
        assert config.T == 5 and config.algorithm.endswith(":SamplingOnly")
    with pytest.raises(ValueError, match="a multiple of 8"):
        stooke.table_1(20)


def test_the_batches_of_both_learners_are_figure_6s():
    configs = [member.config for member in find_grid("experiments.stooke:figure_6").members]
    assert {(c.algo.batch_size, c.secondary.batch) for c in configs} == {(2_048, 64), (64, 2_048)}


def test_learners_are_the_papers():
    many = stooke.a3c(ranks=32)
    assert (many.distributed.ranks, many.distributed.update, many.sampler.envs) == (32, "async", 16)
    appo, ppo = stooke.appo(local_updates=4), stooke.ppo_scaling(envs=8)
    algo: Any = appo.algo
    assert algo.learning_rate == ppo.algo.learning_rate / 4 and algo.learning_rate_schedule == "constant"
    assert algo.clip_grad_norm == 0.5 and algo.clip_schedule == "constant" and algo.optimizer == "adam-epsilon-hat"
    assert (appo.distributed.ranks, appo.distributed.local_updates, appo.distributed.pull_steps) == (8, 4, 64)
    table = stooke.table_2(gpus=8, algorithm="ppo")
    assert (table.sampler.envs, table.distributed.ranks, table.distributed.update) == (64, 8, "all-reduce")
    assert stooke.table_2(gpus=8, algorithm="a3c").sampler.envs == 16  # of each
    figure = {m.name: m.config for m in stooke.figure_10().only({"game": ["pong"], "seed": ["0"]}).members}
    assert figure["pong,a2c-256env,seed=0"] == stooke.a2c_scaling(envs=256)
    assert figure["pong,a3c-16env-16,seed=0"] == stooke.a3c(ranks=16)


def test_settings_of_the_published_code():
    """In the paper, only APPO and later experiments clip the norm of gradients (section 5.3)."""
    a2c: Any = stooke.a2c_scaling().algo
    assert (a2c.optimizer, a2c.rmsprop_alpha, a2c.optimizer_eps, a2c.clip_grad_norm) == ("rmsprop", 0.9, 1e-6, 0.5)
    assert stooke.a3c().algo == a2c
    ppo: Any = stooke.ppo_scaling().algo
    assert (ppo.value_coefficient, ppo.clip_grad_norm, ppo.normalize_advantage) == (1.0, 0.0, "none")
    assert (ppo.clip_schedule, ppo.learning_rate_schedule, ppo.minibatch) == ("linear", "linear", 512)
    for config in (ppo, stooke.c51_scaling().algo, stooke.rainbow_512().algo, stooke.optimizers().algo):
        assert config.optimizer == "adam-epsilon-hat"  # appendix A
    rmsprop: Any = stooke.optimizers(optimizer="rmsprop", batch_size=1_024).algo
    assert (rmsprop.optimizer, rmsprop.optimizer_eps) == ("rmsprop", 1e-6)
    with pytest.raises(ValueError, match="optimizer='sgd'"):
        stooke.optimizers(optimizer="sgd")


@pytest.mark.parametrize("seeds", [(3,), (0, 1, 2)])
@pytest.mark.parametrize("n", range(3, 13))
def test_figures_take_seeds(n, seeds):
    found = find_grid(f"experiments.stooke:figure_{n}", seeds)
    assert {m.config.seed for m in found.members} == set(seeds)


def test_a_run_that_only_samples(tmp_path):
    """A run of SamplingOnly acts with the parameters of the run in `--policy`, and makes no updates."""
    run = ("--env", "CartPole-v1", "--sampler.engine", "in-process", "--envs", "4", "--env-steps", "400")
    run += ("--decorrelation-steps", "0", "--evaluation.interval", "0", "--torch-threads", "1")
    assert main(["train", "a2c", *run, "--run-dir", str(tmp_path / "policy")]) == 0
    name = "accel_rl.papers.stooke.table_experiments:SamplingOnly"
    words = ["train", name, *run, "--horizon", "5", "--policy", str(tmp_path / "policy")]
    assert main([*words, "--run-dir", str(tmp_path / "sampling")]) == 0
    policy, sampled = (Checkpoints(tmp_path / n / "checkpoints").load_latest() for n in ("policy", "sampling"))
    given, acted = (state["learner"]["network"] for _, state in (policy, sampled))
    assert (
        all(torch.equal(given[name], acted[name]) for name in given)
        and sampled[1]["learner"]["updates"] == 0
        and sampled[0] == 400
    )
    assert main(["train", name, *run, "--policy", str(tmp_path), "--run-dir", str(tmp_path / "no")]) == 2
    assert sampling_only("breakout", 16, 5).env.game == "breakout"


def test_gorilas_settings_are_those_of_section_5_1():
    config = gorila.gorila()
    algo: Any = config.algo
    assert (config.cluster, config.gorila.bundles, config.gorila.shards, config.gorila.in_flight) == (
        "gorila",
        100,
        31,
        0,
    )
    assert (algo.network, algo.optimizer, algo.replay.size, algo.target_interval) == (
        *("nature", "adagrad"),
        *(1_000_000, 60_000),
    )
    assert (algo.epsilon, algo.epsilon_final, algo.epsilon_steps, algo.epsilon_unit) == (1.0, 0.1, 1_000_000, "updates")
    assert (algo.intensity / algo.batch_size, config.sampler.envs, config.T) == (1, 1, 1)  # one update per env step
    assert config.evaluation.episodes == 30 and config.evaluation_limit == 18_000 / 4  # Nair et al. 2015, section 5.2
    saved = replace(config, evaluation=replace(config.evaluation, starts="saved"))
    assert saved.evaluation_limit == 108_000 / 4


def test_a_scaled_gorila_run_has_20_target_intervals():
    algo: Any = scaled(gorila.gorila(), 1e-4).algo
    assert algo.target_interval == 20_000 / 20
    small = scaled(gorila.pong_small(), 0.01)
    assert small.gorila.updates == 3_000
    algo = small.algo
    assert algo.target_interval == 3_000 / 20


def test_both_agents_on_small_pong_make_the_same_updates():
    cluster, alone = gorila.pong_small(), gorila.pong_small_single()
    algo: Any = alone.algo
    assert (alone.env_steps - algo.replay.start) * algo.intensity / algo.batch_size == cluster.gorila.updates == 300_000
    assert replace(alone.algo, replay=cluster.algo.replay) == cluster.algo
    assert algo.replay.size == cluster.algo.replay.size * cluster.gorila.bundles == 100_000
    assert gorila.pong_small_unguarded().gorila.outlier_deviations == 0 < cluster.gorila.outlier_deviations
    with pytest.raises(ValueError, match="gorila or single"):
        gorila.tables(agent="two")
