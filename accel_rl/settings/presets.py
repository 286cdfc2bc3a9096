"""A preset contains the settings of another project or paper for the algorithm, for sampling and for the Atari
protocol.

Each value of a preset is the source's value, converted to this project's units. If a value was converted, a comment
explains the conversion.
"""

from dataclasses import replace
from typing import Any

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.settings.flags import with_setting
from accel_rl.settings.gorila_settings import GorilaConfig
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError, nearest

Settings = dict[str, Any]

# SB3 also uses the wrappers of OpenAI baselines.
_WRAPPERS: Settings = {"env.protocol": "cleanrl2022"}
_TEN_MILLION: Settings = {"env_steps": 10_000_000, "sampler.decorrelation_steps": 0}
_EIGHT_BY_128: Settings = {"sampler.envs": 8, "sampler.horizon": 128}
_ONE_ENV: Settings = {"sampler.envs": 1, "sampler.horizon": 4, "algo.intensity": 8.0, "algo.batch_size": 32}
"""Settings for one environment, with an update on a batch of 32 transitions every 4 steps."""

_CLEANRL: Settings = {**_WRAPPERS, **_TEN_MILLION}
_CLEANRL_Q: Settings = {
    **_CLEANRL,
    **_ONE_ENV,
    "algo.optimizer": "adam",
    "algo.network": "nature",
    "algo.replay.size": 1_000_000,
    "algo.replay.start": 80_000,
    # CleanRL's exploration epsilon falls from 1 at step 0 to 0.01 at step 1,000,000.
    # This project's exploration epsilon falls from the first update on.
    "algo.epsilon": 1 - 0.99 * 0.08,
    "algo.epsilon_final": 0.01,
    "algo.epsilon_steps": 920_000,
}
_DOPAMINE: Settings = {
    "env.protocol": "dopamine2018",
    "env_steps": 50_000_000,
    "sampler.decorrelation_steps": 0,
    **_ONE_ENV,
    "algo.network": "nature-same",
    "algo.optimizer": "adam",
    "algo.replay.size": 1_000_000,
    "algo.replay.start": 20_000,
    "algo.target_interval": 8_000,
    "algo.epsilon_final": 0.01,
    "algo.epsilon_steps": 250_000,
    "algo.epsilon_evaluation": 0.001,
}
_ATARI_PPO: Settings = {
    **_CLEANRL,
    **_EIGHT_BY_128,
    "algo.learning_rate": 2.5e-4,
    "algo.learning_rate_schedule": "linear",
    "algo.gae_lambda": 0.95,
    "algo.minibatch": 256,
    "algo.epochs": 4,
    "algo.normalize_advantage": "minibatch",
    "algo.clip": 0.1,
    "algo.entropy_coefficient": 0.01,
    "algo.clip_grad_norm": 0.5,
    "algo.target_kl": 0.0,
    "algo.optimizer": "adam",
    "algo.optimizer_eps": 1e-5,
    "algo.network": "nature",
}
"""Settings that CleanRL and RL Baselines3 Zoo share."""

_STOOKE: Settings = {"env.protocol": "stooke2018", "env_steps": 50_000_000}

_PUREJAXQL: Settings = {
    "env.protocol": "cleanba2023",
    "env.repeat_action_probability": 0.0,
    "env.full_action_set": False,
    "env.life_loss_ends_return": True,
    "env.noop_max": 30,
    "env_steps": 10_000_000,
    "sampler.decorrelation_steps": 0,
    "sampler.envs": 128,
    "sampler.horizon": 32,
    "algo.learning_rate": 2.5e-4,
    "algo.learning_rate_schedule": "constant",
    "algo.gae_lambda": 0.65,
    "algo.minibatch": 128,
    "algo.epochs": 2,
    "algo.epsilon_final": 0.001,
    "algo.exploration": 0.1,
    "algo.epsilon_evaluation": 0.0,
    "algo.clip_grad_norm": 10.0,
    "algo.optimizer": "radam",
    "algo.optimizer_eps": 1e-8,
}
"""Settings that purejaxql and Hadamax share."""

PRESETS: dict[str, tuple[str, dict[str, Settings]]] = {
    "cleanrl": (
        "CleanRL: ppo_atari.py, dqn_atari.py, c51_atari.py, pqn_atari_envpool.py",
        {
            "ppo": {
                **_ATARI_PPO,
                "algo.clip_schedule": "constant",
                "algo.value_clip": 0.1,
                "algo.value_coefficient": 0.25,  # CleanRL's vf_coef is 0.5, and its value loss has a factor 1/2.
            },
            "dqn": {
                **_CLEANRL_Q,
                "algo.learning_rate": 1e-4,
                "algo.optimizer_eps": 1e-8,
                "algo.target_interval": 1_000,
                "algo.huber": 0.0,
            },
            "c51": {
                **_CLEANRL_Q,
                "algo.learning_rate": 2.5e-4,
                "algo.optimizer_eps": 0.01,  # Both C51s, CleanRL's and this project's, divide 0.01 by the batch size.
                "algo.target_interval": 10_000,
                "algo.atoms": 51,
                "algo.v_min": -10.0,
                "algo.v_max": 10.0,
            },
            "pqn": {
                **_CLEANRL,
                **_EIGHT_BY_128,
                "algo.learning_rate": 2.5e-4,
                "algo.learning_rate_schedule": "linear",
                "algo.gae_lambda": 0.65,
                "algo.minibatch": 256,
                "algo.epochs": 4,
                "algo.epsilon_final": 0.01,
                "algo.exploration": 0.1,
                # CleanRL clips the norm at 10, but its loss has no factor 1/2.
                "algo.clip_grad_norm": 5.0,
                "algo.optimizer": "radam",
                "algo.optimizer_eps": 1e-8,
                "algo.network": "nature",
                "algo.layer_norm": "before",
            },
        },
    ),
    "sb3": (
        "Stable-Baselines3 with the hyperparameters of RL Baselines3 Zoo for Atari",
        {
            "ppo": {
                **_ATARI_PPO,
                "algo.clip_schedule": "linear",
                "algo.value_clip": 0.0,
                "algo.value_coefficient": 0.5,
            },
            "a2c": {
                **_CLEANRL,
                "sampler.envs": 16,
                "sampler.horizon": 5,
                "algo.learning_rate": 7e-4,
                "algo.learning_rate_schedule": "constant",
                "algo.learning_rate_scaling": "none",
                "algo.gae_lambda": 1.0,
                "algo.entropy_coefficient": 0.01,
                "algo.value_coefficient": 0.25,
                "algo.clip_grad_norm": 0.5,
                "algo.optimizer": "rmsprop",  # RMSpropTFLike adds epsilon inside the square root.
                "algo.optimizer_eps": 1e-5,
                "algo.rmsprop_alpha": 0.99,
                "algo.network": "nature",
            },
            "dqn": {
                **_CLEANRL,
                **_ONE_ENV,
                "algo.learning_rate": 1e-4,
                "algo.optimizer": "adam",
                "algo.optimizer_eps": 1e-8,
                "algo.network": "nature",
                "algo.replay.size": 100_000,
                "algo.replay.start": 100_000,
                "algo.target_interval": 1_000,
                "algo.huber": 1.0,
                "algo.clip_grad_norm": 10.0,
                # The source's exploration epsilon falls from 1 at step 0 to 0.01 at step 1,000,000.
                # This project's exploration epsilon falls from the first update on.
                "algo.epsilon": 1 - 0.99 * 0.1,
                "algo.epsilon_final": 0.01,
                "algo.epsilon_steps": 900_000,
            },
            "qrdqn": {
                **_CLEANRL,
                **_ONE_ENV,
                "algo.learning_rate": 5e-5,
                "algo.optimizer": "adam",
                "algo.optimizer_eps": 0.01 / 32,
                "algo.network": "nature",
                "algo.quantiles": 200,
                "algo.replay.size": 1_000_000,
                "algo.replay.start": 50_000,
                "algo.target_interval": 10_000,
                # The source's exploration epsilon falls from 1 at step 0 to 0.01 at step 250,000.
                "algo.epsilon": 1 - 0.99 * 0.2,
                "algo.epsilon_final": 0.01,
                "algo.epsilon_steps": 200_000,
            },
        },
    ),
    "dopamine": (
        "Dopamine (JAX): dqn.gin, c51.gin, quantile.gin, implicit_quantile.gin, rainbow.gin",
        {
            "dqn": {
                **_DOPAMINE,
                "algo.learning_rate": 6.25e-5,
                "algo.optimizer_eps": 1.5e-4,
                "algo.huber": 0.0,
                "algo.n_step": 1,
            },
            "c51": {
                **_DOPAMINE,
                "algo.learning_rate": 2.5e-4,
                "algo.optimizer_eps": 0.0003125 * 32,  # C51 and Rainbow divide optimizer_eps by the batch size.
                "algo.n_step": 1,
                "algo.atoms": 51,
                "algo.v_min": -10.0,
                "algo.v_max": 10.0,
            },
            "qrdqn": {
                **_DOPAMINE,
                "algo.learning_rate": 5e-5,
                "algo.optimizer_eps": 0.0003125,
                "algo.n_step": 3,
                "algo.quantiles": 200,
                "algo.huber": 1.0,
                "algo.replay.prioritized": True,
                "algo.replay.alpha": 0.5,
                # Dopamine applies importance weights only after the update, so its gradient is not weighted.
                "algo.replay.beta": 0.0,
                "algo.replay.beta_final": 0.0,
            },
            "iqn": {
                **_DOPAMINE,
                "algo.learning_rate": 5e-5,
                "algo.optimizer_eps": 0.0003125,
                "algo.n_step": 3,
                "algo.quantiles": 64,
                "algo.target_quantiles": 64,
                "algo.value_quantiles": 32,
                "algo.cosines": 64,
                "algo.huber": 1.0,
            },
            "rainbow": {
                **_DOPAMINE,
                "algo.learning_rate": 6.25e-5,
                "algo.optimizer_eps": 1.5e-4 * 32,  # C51 and Rainbow divide optimizer_eps by the batch size.
                "algo.n_step": 3,
                "algo.atoms": 51,
                "algo.v_min": -10.0,
                "algo.v_max": 10.0,
                "algo.double": False,
                "algo.dueling": False,
                "algo.clip_grad_norm": 0.0,
                "algo.priority": "cross-entropy",
                "algo.replay.prioritized": True,
                "algo.replay.alpha": 0.5,
                "algo.replay.beta": 0.5,
                "algo.replay.beta_final": 0.5,
            },
        },
    ),
    "stooke2018": (
        "Stooke & Abbeel 2018, sections 5.1 to 5.4, and their published code",
        {
            "a2c": {
                **_STOOKE,
                "sampler.envs": 16,
                "sampler.horizon": 5,
                "algo.optimizer": "rmsprop",
                "algo.rmsprop_alpha": 0.9,
                "algo.optimizer_eps": 1e-6,
                "algo.network": "a3c",
            },
            "ppo": {
                **_STOOKE,
                "sampler.envs": 8,
                "sampler.horizon": 256,
                "algo.learning_rate": 1e-3,
                "algo.minibatch": 512,
                "algo.epochs": 4,
                "algo.value_coefficient": 1.0,
                "algo.clip_grad_norm": 0.0,
                "algo.normalize_advantage": "none",
                "algo.clip_schedule": "linear",
                "algo.network": "a3c",
            },
            "dqn": {**_STOOKE, "algo.network": "dqn"},
            "c51": {**_STOOKE, "algo.network": "dqn"},
            "rainbow": {**_STOOKE, "algo.network": "dqn"},
        },
    ),
    "mnih2015": (
        "Mnih et al. 2015, Methods and Extended Data Table 1",
        {
            "dqn": {
                "env.protocol": "mnih2015",
                "env_steps": 50_000_000,
                "sampler.decorrelation_steps": 0,
                **_ONE_ENV,
                "algo.learning_rate": 2.5e-4,
                "algo.optimizer": "rmsprop-centered",
                "algo.rmsprop_alpha": 0.95,
                "algo.optimizer_eps": 0.01,
                "algo.network": "nature",
                "algo.replay.size": 1_000_000,
                "algo.replay.start": 50_000,
                "algo.target_interval": 10_000,
                "algo.target_unit": "updates",
                "algo.huber": 1.0,
                "algo.epsilon": 1.0,
                "algo.epsilon_final": 0.1,
                "algo.epsilon_steps": 1_000_000,
                "algo.epsilon_evaluation": 0.05,
            }
        },
    ),
    "vanhasselt2019": (
        "van Hasselt et al. 2019, appendix E: data-efficient Rainbow on Atari-100k",
        {
            "rainbow": {
                "env.protocol": "mnih2015",
                "env.max_evaluation_steps": 27_000,
                "env_steps": 100_000,
                "sampler.decorrelation_steps": 0,
                "sampler.envs": 1,
                "sampler.horizon": 2,
                "algo.intensity": 32.0,  # One update on a batch of 32 per env step
                "algo.batch_size": 32,
                "algo.learning_rate": 1e-4,
                "algo.optimizer": "adam",
                "algo.optimizer_eps": 1.5e-4 * 32,  # C51 and Rainbow divide optimizer_eps by the batch size.
                "algo.n_step": 20,
                "algo.network": "data-efficient",
                "algo.noisy": True,
                "algo.noisy_sigma": 0.1,
                "algo.epsilon_evaluation": 0.001,
                "algo.target_interval": 2_000,
                "algo.target_unit": "updates",
                "algo.replay.size": 100_000,  # The source's replay is not limited in size.
                "algo.replay.start": 1_600,
            }
        },
    ),
    "btr2025": (
        "Clark et al. 2024, table D4, and the code of Beyond the Rainbow",
        {
            "btr": {
                "env.protocol": "mnih2015",
                "env.repeat_action_probability": 0.25,
                "env.noop_min": 1,
                "env.noop_max": 30,
                "env.life_loss_ends_return": False,
                "env.full_action_set": False,
                "env.max_episode_steps": 27_000,
                "env.max_evaluation_steps": 27_000,
                "env_steps": 50_000_000,
                "sampler.decorrelation_steps": 0,
                "sampler.envs": 64,
                # The source's settings are the algorithm's defaults.
            }
        },
    ),
    "kapturowski2019": (
        "Kapturowski et al. 2019, table 2 and appendix, with Ape-X's exploration (Horgan et al. 2018)",
        {
            "r2d2": {
                "env.protocol": "mnih2015",
                "env.full_action_set": True,
                "env.life_loss_ends_return": False,
                "env.max_evaluation_steps": 27_000,
                "env_steps": 2_500_000_000,
                "sampler.decorrelation_steps": 0,
                "sampler.envs": 256,
                "sampler.horizon": 40,
                "algo.network": "nature",
                "algo.lstm": 512,
                "algo.hidden": (512,),
                "algo.length": 80,
                "algo.burn_in": 40,
                "algo.period": 40,
                "algo.batch_size": 64,
                "algo.intensity": 0.8,
                "algo.n_step": 5,
                "algo.gamma": 0.997,
                "algo.eta": 0.9,
                "algo.rescale": 1e-3,
                "algo.reward_clip": 0.0,
                "algo.learning_rate": 1e-4,
                "algo.optimizer": "adam",
                "algo.optimizer_eps": 1e-3,
                "algo.clip_grad_norm": 40.0,
                "algo.target_interval": 2_500,
                "algo.target_unit": "updates",
                "algo.epsilon_final": 0.4,
                "algo.epsilon_spread": 7.0,
                "algo.epsilon_evaluation": 0.001,
                "algo.replay.size": 4_000_000,
                "algo.replay.start": 50_000,
                "algo.replay.alpha": 0.9,
                "algo.replay.beta": 0.6,
                "algo.replay.beta_final": 0.6,
            }
        },
    ),
    "pqn2024": (
        "Gallici et al. 2024: purejaxql, pqn_atari.yaml",
        {
            "pqn": {
                **_PUREJAXQL,
                "env_steps": 50_000_000,
                "algo.network": "nature",
                "algo.layer_norm": "before-channels",
            }
        },
    ),
    "hadamax2025": (
        "Kooi et al. 2025: Hadamax, pqn_atari_hadamax.py",
        {"pqn": {**_PUREJAXQL, "algo.network": "hadamax"}},
    ),
}
"""Maps a preset's name to (source, {algorithm: settings})."""


def with_preset(config: TrainConfig, name: str) -> TrainConfig:
    """Raises ConfigError for an unknown preset, or one without settings of the algorithm."""
    if name not in PRESETS:
        raise ConfigError(f"--preset {name}: must be {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    _, algorithms = PRESETS[name]
    if config.algorithm not in algorithms:
        raise ConfigError(f"--preset {name}: has settings of {', '.join(algorithms)}, not of {config.algorithm}")
    for setting, value in algorithms[config.algorithm].items():
        config = with_setting(config, setting, value)
    return with_setting(config, "preset", name)


def with_chosen(config: TrainConfig, preset: str | None, cluster: str | None, is_atari: bool) -> TrainConfig:
    """The defaults for --preset and --cluster, which other settings override. Raises ConfigError."""
    config = with_preset(config, preset) if preset else config
    return on_gorila(config, is_atari) if cluster == "gorila" else config


def on_gorila(config: TrainConfig, is_atari: bool = True) -> TrainConfig:
    """Settings for --cluster gorila, in which schedules count the updates of the parameters.

    An algorithm's default settings are replaced by those of Nair et al. 2015. The replaced settings are the interval of
    the target network (section 5.1), the guard against outliers (section 4.2, only for Q-learning with clipped
    rewards), and for DQN the network (section 5.1). The optimizer stays RMSProp, because Nair et al. 2015 do not report
    the learning rate of AdaGrad, and this project has not searched for a learning rate. If the settings come from an
    experiment, no setting is replaced. `is_atari` is true for an Atari game, whose rewards are clipped by
    default.
    """
    algo, gorila = config.algo, config.gorila
    if isinstance(algo, ReplayAlgorithmConfig):
        is_default = algo == find_algorithm(config.algorithm).Config()
        units: Any = dict.fromkeys(algo.units, "updates")
        algo = replace(algo, **units)
        if is_default:
            algo = replace(algo, target_interval=60_000, epsilon_steps=1_000_000)  # type: ignore[call-arg]
        if is_default and config.algorithm == "dqn":
            algo = replace(algo, network="nature")  # type: ignore[call-arg]
        if gorila == GorilaConfig() and is_atari and algo.reward_clip != 0:
            gorila = replace(gorila, outlier_deviations=5.0)
    return replace(config, algo=algo, gorila=gorila, cluster="gorila")
