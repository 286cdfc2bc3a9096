"""Each setting always has an effect, or has a condition in accel_rl.settings.advice under which it has none."""

from dataclasses import replace

import pytest

from accel_rl.algos.a2c import A2CConfig
from accel_rl.envs.make import EnvConfig
from accel_rl.settings import advice
from accel_rl.settings.advice import CONDITIONS
from accel_rl.settings.flags import with_setting
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.types import values_in

# Settings that always have an effect. Any other setting needs an entry in accel_rl.settings.advice.
ALWAYS = {
    *("algorithm", "env_steps", "seed", "run_dir", "schedule", "cluster", "device", "precision", "capture_updates"),
    *(
        "torch_threads",
        "max_skipped_updates",
        "wandb",
        "env.game",
        "env.id",
        "env.max_episode_steps",
        "env.max_evaluation_steps",
    ),
    *("callback", "sink", "init", "schedule_steps"),
    *("checkpoint.interval", "checkpoint.keep", "log.interval", "log.window", "log.norms", "log.tensorboard"),
    *("evaluation.interval", "evaluation.episodes", "evaluation.max_episode_steps", "evaluation.parallel"),
    *("evaluation.starts", "evaluation.starts_file", "evaluation.greedy", "secondary.batch"),
    *("distributed.ranks", "distributed.gpus", "distributed.update"),
    *("sampler.envs", "sampler.horizon", "sampler.cores", "sampler.reset", "sampler.decorrelation_steps"),
    *("sampler.engine", "sampler.capture", "preset"),
    *("algo.learning_rate", "algo.learning_rate_schedule", "algo.gamma", "algo.clip_grad_norm", "algo.reward_clip"),
    *("algo.normalize_rewards",),
    *("algo.optimizer", "algo.optimizer_eps", "algo.gae_lambda", "algo.value_coefficient", "algo.entropy_coefficient"),
    *("algo.lstm", "algo.learning_rate_scaling", "algo.warmup", "algo.clip", "algo.clip_schedule", "algo.value_clip"),
    *("algo.epochs", "algo.minibatch", "algo.normalize_advantage", "algo.target_kl", "algo.window", "algo.batches"),
    *("algo.rho_clip", "algo.c_clip", "algo.batch_size", "algo.intensity", "algo.n_step", "algo.target_interval"),
    *("algo.target_unit", "algo.double", "algo.dueling", "algo.noisy", "algo.epsilon_evaluation"),
    *("algo.hidden", "algo.exploration", "algo.atoms", "algo.v_min", "algo.v_max", "algo.quantiles"),
    *("algo.munchausen", "algo.target_quantiles", "algo.value_quantiles", "algo.cosines", "algo.epsilon_until"),
    *("algo.length", "algo.burn_in", "algo.period", "algo.rescale"),
    *("algo.replay.size", "algo.replay.start", "algo.replay.device", "algo.replay.prioritized"),
}


def inactive(config: TrainConfig) -> list[str]:
    return advice.inactive(config, resolve(config))


def config(algorithm: str = "ppo") -> TrainConfig:
    return replace(default_config(algorithm), env=EnvConfig(id="CartPole-v1"))


SWITCHES = {
    **{"algo.replay.prioritized": (True, False), "algo.noisy": (True, False), "algo.munchausen": (0.0, 0.9)},
    **{"algo.optimizer": ("adam", "rmsprop"), "algo.learning_rate_schedule": ("constant", "linear")},
    "algo.learning_rate_scaling": ("none", "sqrt"),
}
"""Settings with which others have no effect, in one of the two values."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_setting_is_known(algorithm: str) -> None:
    config = default_config(algorithm)
    values = values_in(config)
    switched = [with_setting(config, name, x) for name, both in SWITCHES.items() if name in values for x in both]
    inactive = {f"algo.{name}" for c in switched for name in c.algo.inactive()}
    assert inactive <= values.keys() and not inactive & ALWAYS
    for name in values:
        conditional = name in inactive or any(c.covers(name) for c in CONDITIONS) or name == "algo.huber"
        # PQN and BTR always explore by epsilon.
        explores = name.startswith("algo.epsilon") and algorithm in ("pqn", "btr")
        assert conditional != (name in ALWAYS or explores), name


@pytest.mark.parametrize(
    ("algorithm", "name", "value", "needs"),
    [
        ("ppo", "gorila.shards", 3, "--cluster gorila"),
        ("ppo", "distributed.chunks", 2, "--update async"),
        ("ppo", "distributed.max_restarts", 2, "several ranks"),
        ("dqn", "secondary.rate", 0.1, "--secondary.batch"),
        ("ppo", "wandb_project", "mine", "--wandb"),
        ("ppo", "env.protocol", "mnih2015", "an Atari game"),
        ("ppo", "algo.network", "dqn", "picture"),
        ("a2c", "algo.schedule_kl", 0.1, "--learning-rate-schedule kl"),
        ("dqn", "algo.replay.beta", 0.5, "--replay.prioritized"),
        ("c51", "algo.rmsprop_alpha", 0.5, "an RMSProp optimizer"),
        ("rainbow", "algo.noisy_sigma", 0.1, "--noisy"),
        ("iqn", "algo.munchausen_policy", "online", "--munchausen"),
        ("rainbow", "algo.huber", 0.5, "Rainbow does not read it"),
    ],
)
def test_a_setting_without_effect_is_named(algorithm: str, name: str, value: object, needs: str) -> None:
    (line,) = inactive(with_setting(config(algorithm), name, value))
    assert line.startswith(f"--{name.replace('_', '-')} {value} has no effect") and needs in line


def test_minutes_between_checkpoints_have_no_effect_beside_env_steps() -> None:
    timed = with_setting(config(), "checkpoint.minutes", 2.0)
    assert inactive(timed) == []
    (line,) = inactive(with_setting(timed, "checkpoint.interval", 1_000))
    assert line == "--checkpoint.minutes 2.0 has no effect: it needs a run without --checkpoint.interval"


def test_a_network_with_norms_of_its_own_has_no_others() -> None:
    pong = with_setting(replace(default_config("dqn"), env=EnvConfig(game="pong")), "algo.layer_norm", "before")
    assert inactive(pong) == []
    (line,) = inactive(with_setting(pong, "algo.network", "hadamax"))
    assert line.endswith("before has no effect: it needs a network without layer norms of its own")
    assert inactive(with_setting(config("dqn"), "algo.layer_norm", "before")) == []


def test_settings_with_an_effect_are_not_named() -> None:
    assert inactive(config()) == []
    assert inactive(with_setting(config("rainbow"), "algo.replay.beta", 0.5)) == []
    atari = replace(default_config("a2c"), env=EnvConfig(game="pong", protocol="mnih2015"), algo=A2CConfig(lstm=8))
    assert inactive(atari) == []


def test_settings_that_are_larger_than_what_a_run_uses_are_said():
    config = default_config("ppo")
    config = replace(
        config,
        env=EnvConfig(id="CartPole-v1"),
        algo=replace(config.algo, minibatch=100_000),
        sampler=replace(config.sampler, envs=8, horizon=64),
        evaluation=replace(config.evaluation, episodes=10, parallel=40),
    )
    assert advice.clamped(resolve(config)) == [
        "--minibatch 100000: a rollout has 512 samples (8 environments x 64 steps), so each epoch is one minibatch of "
        "512",
        "--evaluation.parallel 40: an evaluation of 10 episodes uses 10 environments",
    ]
    assert not advice.clamped(
        resolve(replace(config, algo=default_config("ppo").algo, evaluation=default_config("ppo").evaluation))
    )
