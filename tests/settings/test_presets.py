"""Presets have the hyperparameters of their sources, which the tests translate to accel_rl's settings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accel_rl.algos.c51 import C51
from accel_rl.algos.dqn import DQN
from accel_rl.api.keywords import settings
from accel_rl.cli.train_command import parse_train
from accel_rl.settings.presets import PRESETS, on_gorila, with_preset
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.algos.streams import SPEC

Row = tuple[str, Any, str, Callable[[Any], Any]]


def same(value):
    return value


def linear(value):
    return "linear" if value else "constant"


CLEANRL_COMMON: list[Row] = [
    ("total_timesteps", 10_000_000, "env_steps", same),
    ("gamma", 0.99, "algo.gamma", same),
    ("env-id", "NoFrameskip-v4 with NoopReset, MaxAndSkip, EpisodicLife, FireReset, 84x84, 4 frames", "env.protocol",
     lambda _: "cleanrl2022"),
]  # fmt: skip
CLEANRL_ROLLOUTS: list[Row] = [
    *CLEANRL_COMMON,
    ("learning_rate", 2.5e-4, "algo.learning_rate", same),
    ("anneal_lr", True, "algo.learning_rate_schedule", linear),
    ("num_envs", 8, "sampler.envs", same),
    ("num_steps", 128, "sampler.horizon", same),
    ("num_minibatches", 4, "algo.minibatch", lambda n: 8 * 128 // n),
    ("update_epochs", 4, "algo.epochs", same),
]
CLEANRL_Q: list[Row] = [
    *CLEANRL_COMMON,
    ("num_envs", 1, "sampler.envs", same),
    ("buffer_size", 1_000_000, "algo.replay.size", same),
    ("batch_size", 32, "algo.batch_size", same),
    ("learning_starts", 80_000, "algo.replay.start", same),
    ("train_frequency", 4, "algo.intensity", lambda n: 32 / n),
    ("train_frequency", 4, "sampler.horizon", same),
    ("end_e", 0.01, "algo.epsilon_final", same),
    ("start_e", 1.0, "algo.epsilon", lambda e: e + (0.01 - e) * 80_000 / 1_000_000),
    ("exploration_fraction", 0.10, "algo.epsilon_steps", lambda f: f * 10_000_000 - 80_000),
    ("network", "32x8x8/4, 64x4x4/2, 64x3x3/1, 512", "algo.network", lambda _: "nature"),
    ("optimizer", "Adam", "algo.optimizer", str.lower),
]
DOPAMINE: list[Row] = [
    ("gamma", 0.99, "algo.gamma", same),
    ("min_replay_history", 20_000, "algo.replay.start", same),
    ("update_period", 4, "algo.intensity", lambda n: 32 / n),
    ("target_update_period", 8_000, "algo.target_interval", same),
    ("epsilon_train", 0.01, "algo.epsilon_final", same),
    ("epsilon_eval", 0.001, "algo.epsilon_evaluation", same),
    ("epsilon_decay_period", 250_000, "algo.epsilon_steps", same),
    ("optimizer", "adam", "algo.optimizer", same),
    ("sticky_actions", True, "env.protocol", lambda _: "dopamine2018"),
    ("num_iterations x training_steps", 200 * 250_000, "env_steps", same),
    ("max_capacity", 1_000_000, "algo.replay.size", same),
    ("batch_size", 32, "algo.batch_size", same),
    ("padding of nn.Conv (flax default)", "SAME", "algo.network", lambda _: "nature-same"),
]
ATOMS: list[Row] = [
    ("num_atoms", 51, "algo.atoms", same),
    ("vmax", 10.0, "algo.v_max", same),
    ("-vmax", -10.0, "algo.v_min", same),
]

PUREJAXQL: list[Row] = [
    ("NUM_ENVS", 128, "sampler.envs", same),
    ("NUM_STEPS", 32, "sampler.horizon", same),
    ("EPS_FINISH", 0.001, "algo.epsilon_final", same),
    ("EPS_DECAY", 0.1, "algo.exploration", same),
    ("NUM_EPOCHS", 2, "algo.epochs", same),
    ("NUM_MINIBATCHES", 32, "algo.minibatch", lambda n: 128 * 32 // n),
    ("LR", 0.00025, "algo.learning_rate", same),
    ("MAX_GRAD_NORM", 10, "algo.clip_grad_norm", float),
    ("LR_LINEAR_DECAY", False, "algo.learning_rate_schedule", linear),
    ("GAMMA", 0.99, "algo.gamma", same),
    ("LAMBDA", 0.65, "algo.gae_lambda", same),
    ("episodic_life", True, "env.life_loss_ends_return", same),
    ("repeat_action_probability", 0.0, "env.repeat_action_probability", same),
    ("noop_max", 30, "env.noop_max", same),
    ("EPS_TEST", 0.0, "algo.epsilon_evaluation", same),
    ("OPT", "radam", "algo.optimizer", same),
]

SOURCES: dict[tuple[str, str], list[Row]] = {
    ("cleanrl", "ppo"): [
        *CLEANRL_ROLLOUTS,
        ("gae_lambda", 0.95, "algo.gae_lambda", same),
        ("norm_adv", True, "algo.normalize_advantage", lambda on: "minibatch" if on else "none"),
        ("clip_coef", 0.1, "algo.clip", same),
        ("clip_vloss", True, "algo.value_clip", lambda on: 0.1 if on else 0.0),
        ("ent_coef", 0.01, "algo.entropy_coefficient", same),
        ("vf_coef", 0.5, "algo.value_coefficient", lambda c: 0.5 * c),
        ("max_grad_norm", 0.5, "algo.clip_grad_norm", same),
        ("target_kl", None, "algo.target_kl", lambda kl: kl or 0.0),
        ("eps of Adam", 1e-5, "algo.optimizer_eps", same),
        ("network", "NatureCNN", "algo.network", lambda _: "nature"),
    ],
    ("cleanrl", "pqn"): [
        *CLEANRL_ROLLOUTS,
        ("q_lambda", 0.65, "algo.gae_lambda", same),
        ("start_e, end_e", 0.01, "algo.epsilon_final", same),
        ("exploration_fraction", 0.10, "algo.exploration", same),
        ("max_grad_norm, of the squared error", 10.0, "algo.clip_grad_norm", lambda n: n / 2),
        ("optimizer", "RAdam", "algo.optimizer", str.lower),
        ("LayerNorm", "between convolution and ReLU", "algo.layer_norm", lambda _: "before"),
    ],
    ("cleanrl", "dqn"): [
        *CLEANRL_Q,
        ("learning_rate", 1e-4, "algo.learning_rate", same),
        ("target_network_frequency", 1_000, "algo.target_interval", same),
        ("loss", "mse_loss", "algo.huber", lambda _: 0.0),
    ],
    ("cleanrl", "c51"): [
        *CLEANRL_Q,
        ("learning_rate", 2.5e-4, "algo.learning_rate", same),
        ("target_network_frequency", 10_000, "algo.target_interval", same),
        ("n_atoms", 51, "algo.atoms", same),
        ("v_min", -10, "algo.v_min", float),
        ("v_max", 10, "algo.v_max", float),
        ("eps of Adam", 0.01 / 32, "algo.optimizer_eps", lambda e: e * 32),
    ],
    ("sb3", "ppo"): [
        ("n_envs", 8, "sampler.envs", same),
        ("n_steps", 128, "sampler.horizon", same),
        ("n_epochs", 4, "algo.epochs", same),
        ("batch_size", 256, "algo.minibatch", same),
        ("n_timesteps", 1e7, "env_steps", int),
        ("learning_rate", "lin_2.5e-4", "algo.learning_rate", lambda s: float(s[4:])),
        ("learning_rate", "lin_2.5e-4", "algo.learning_rate_schedule", lambda s: linear(s.startswith("lin_"))),
        ("clip_range", "lin_0.1", "algo.clip", lambda s: float(s[4:])),
        ("clip_range", "lin_0.1", "algo.clip_schedule", lambda s: linear(s.startswith("lin_"))),
        ("vf_coef", 0.5, "algo.value_coefficient", same),
        ("ent_coef", 0.01, "algo.entropy_coefficient", same),
        ("clip_range_vf (default)", None, "algo.value_clip", lambda c: c or 0.0),
        ("gae_lambda (default)", 0.95, "algo.gae_lambda", same),
        ("max_grad_norm (default)", 0.5, "algo.clip_grad_norm", same),
    ],
    ("sb3", "a2c"): [
        ("n_envs", 16, "sampler.envs", same),
        ("n_steps (default)", 5, "sampler.horizon", same),
        ("n_timesteps", 1e7, "env_steps", int),
        ("ent_coef", 0.01, "algo.entropy_coefficient", same),
        ("vf_coef", 0.25, "algo.value_coefficient", same),
        ("learning_rate (default)", 7e-4, "algo.learning_rate", same),
        ("gae_lambda (default)", 1.0, "algo.gae_lambda", same),
        ("max_grad_norm (default)", 0.5, "algo.clip_grad_norm", same),
        ("RMSpropTFLike(eps)", 1e-5, "algo.optimizer_eps", same),
        ("RMSpropTFLike(alpha)", 0.99, "algo.rmsprop_alpha", same),
        ("RMSpropTFLike", "epsilon inside the root", "algo.optimizer", lambda _: "rmsprop"),
    ],
    ("sb3", "dqn"): [
        ("n_timesteps", 1e7, "env_steps", int),
        ("buffer_size", 100_000, "algo.replay.size", same),
        ("learning_rate", 1e-4, "algo.learning_rate", same),
        ("batch_size", 32, "algo.batch_size", same),
        ("learning_starts", 100_000, "algo.replay.start", same),
        ("target_update_interval", 1_000, "algo.target_interval", same),
        ("train_freq", 4, "algo.intensity", lambda n: 32 / n),
        ("exploration_fraction", 0.1, "algo.epsilon_steps", lambda f: f * 10_000_000 - 100_000),
        ("exploration_final_eps", 0.01, "algo.epsilon_final", same),
        ("max_grad_norm (default)", 10, "algo.clip_grad_norm", float),
        ("loss", "smooth_l1_loss", "algo.huber", lambda _: 1.0),
    ],
    ("dopamine", "dqn"): [
        *DOPAMINE,
        ("learning_rate", 6.25e-5, "algo.learning_rate", same),
        ("eps", 1.5e-4, "algo.optimizer_eps", same),
        ("update_horizon", 1, "algo.n_step", same),
        ("loss_type", "mse", "algo.huber", lambda _: 0.0),
    ],
    ("dopamine", "c51"): [
        *DOPAMINE,
        *ATOMS,
        ("learning_rate", 0.00025, "algo.learning_rate", same),
        ("eps", 0.0003125, "algo.optimizer_eps", lambda e: 32 * e),
        ("update_horizon", 1, "algo.n_step", same),
        ("replay_scheme", "uniform", "algo.replay.prioritized", lambda s: s == "prioritized"),
    ],
    ("kapturowski2019", "r2d2"): [
        ("actors", 256, "sampler.envs", same),
        ("training frames", 10_000_000_000, "env_steps", lambda f: f // 4),
        ("resolution", "84 x 84", "env.protocol", lambda _: "mnih2015"),
        ("action set", "full", "env.full_action_set", lambda s: s == "full"),
        ("life loss", "no episode end", "env.life_loss_ends_return", lambda _: False),
        ("max episode frames", 108_000, "env.max_evaluation_steps", lambda f: f // 4),
        ("reward clipping", None, "algo.reward_clip", lambda c: c or 0.0),
        ("Torso", "3-layer convolutional network of Mnih et al. 2015", "algo.network", lambda _: "nature"),
        ("LSTM hidden units", 512, "algo.lstm", same),
        ("Hidden units of each dueling stream", (512,), "algo.hidden", same),
        ("m", 80, "algo.length", same),
        ("burn-in length l", 40, "algo.burn_in", same),
        ("overlap", 40, "algo.period", same),
        ("overlap", 40, "sampler.horizon", same),
        ("Batch size (sequences)", 64, "algo.batch_size", same),
        ("average replays of an observation", 0.8, "algo.intensity", same),
        ("n", 5, "algo.n_step", same),
        ("Discount", 0.997, "algo.gamma", same),
        ("eta", 0.9, "algo.eta", same),
        ("epsilon of h", 1e-3, "algo.rescale", same),
        ("Learning rate", 1e-4, "algo.learning_rate", same),
        ("Optimizer", "Adam", "algo.optimizer", str.lower),
        ("Optimizer epsilon", 1e-3, "algo.optimizer_eps", same),
        ("gradient norm (SEED RL)", 40, "algo.clip_grad_norm", float),
        ("Target network update interval (updates)", 2_500, "algo.target_interval", same),
        ("Target network update interval (updates)", "updates", "algo.target_unit", same),
        ("epsilon (Ape-X)", 0.4, "algo.epsilon_final", same),
        ("alpha of epsilon_i (Ape-X)", 7, "algo.epsilon_spread", float),
        ("eval_epsilon (SEED RL)", 0.001, "algo.epsilon_evaluation", same),
        ("Replay buffer size (observations)", 4_000_000, "algo.replay.size", int),
        ("learning starts (Ape-X)", 50_000, "algo.replay.start", same),
        ("Priority exponent", 0.9, "algo.replay.alpha", same),
        ("Importance sampling exponent", 0.6, "algo.replay.beta", same),
        ("Importance sampling exponent", 0.6, "algo.replay.beta_final", same),
        ("initial random no-ops", 0, "sampler.decorrelation_steps", same),
    ],
    ("sb3", "qrdqn"): [
        *CLEANRL_COMMON,
        ("buffer_size (default)", 1_000_000, "algo.replay.size", same),
        ("learning_starts (default)", 50_000, "algo.replay.start", same),
        ("target_update_interval (default)", 10_000, "algo.target_interval", same),
        ("train_freq (default)", 4, "algo.intensity", lambda n: 32 / n),
        ("learning_rate (default)", 5e-5, "algo.learning_rate", same),
        ("optimizer epsilon", 0.01 / 32, "algo.optimizer_eps", same),
        ("n_quantiles (default)", 200, "algo.quantiles", same),
        ("exploration_fraction", 0.025, "algo.epsilon_steps", lambda f: f * 10_000_000 - 50_000),
        ("exploration_fraction", 0.025, "algo.epsilon", lambda f: 1 - 0.99 * 50_000 / (f * 10_000_000)),
        ("exploration_final_eps", 0.01, "algo.epsilon_final", same),
    ],
    ("dopamine", "qrdqn"): [
        *DOPAMINE,
        ("learning_rate", 0.00005, "algo.learning_rate", same),
        ("eps", 0.0003125, "algo.optimizer_eps", same),
        ("update_horizon", 3, "algo.n_step", same),
        ("num_atoms", 200, "algo.quantiles", same),
        ("kappa", 1.0, "algo.huber", same),
        ("replay_scheme", "prioritized", "algo.replay.prioritized", lambda s: s == "prioritized"),
        ("priority", "sqrt(loss)", "algo.replay.alpha", lambda _: 0.5),
        ("gradient's weight", "none", "algo.replay.beta", lambda _: 0.0),
        ("gradient's weight", "none", "algo.replay.beta_final", lambda _: 0.0),
    ],
    ("dopamine", "iqn"): [
        *DOPAMINE,
        ("learning_rate", 0.00005, "algo.learning_rate", same),
        ("eps", 0.0003125, "algo.optimizer_eps", same),
        ("update_horizon", 3, "algo.n_step", same),
        ("num_tau_samples", 64, "algo.quantiles", same),
        ("num_tau_prime_samples", 64, "algo.target_quantiles", same),
        ("num_quantile_samples", 32, "algo.value_quantiles", same),
        ("quantile_embedding_dim", 64, "algo.cosines", same),
        ("kappa", 1.0, "algo.huber", same),
        ("replay_scheme", "uniform", "algo.replay.prioritized", lambda s: s == "prioritized"),
    ],
    ("dopamine", "rainbow"): [
        *DOPAMINE,
        *ATOMS,
        ("learning_rate", 0.0000625, "algo.learning_rate", same),
        ("eps", 0.00015, "algo.optimizer_eps", lambda e: 32 * e),
        ("update_horizon", 3, "algo.n_step", same),
        ("replay_scheme", "prioritized", "algo.replay.prioritized", lambda s: s == "prioritized"),
        ("priority", "sqrt(loss)", "algo.replay.alpha", lambda _: 0.5),
        ("loss", "softmax_cross_entropy_loss_with_logits", "algo.priority", lambda _: "cross-entropy"),
        ("loss weight", "1 / sqrt(probability)", "algo.replay.beta", lambda _: 0.5),
    ],
    ("btr2025", "btr"): [
        ("frames", 200_000_000, "env_steps", lambda n: n // 4),
        ("environments", 64, "sampler.envs", same),
        ("sticky actions", 0.25, "env.repeat_action_probability", same),
        ("no-ops", (1, 30), "env.noop_min", lambda n: n[0]),
        ("no-ops", (1, 30), "env.noop_max", lambda n: n[1]),
        ("life information", False, "env.life_loss_ends_return", same),
        ("actions", "minimal", "env.full_action_set", lambda s: s != "minimal"),
        ("frames of an episode", 108_000, "env.max_episode_steps", lambda n: n // 4),
        ("batch", 256, "algo.batch_size", same),
        ("replay ratio: updates per 64 env steps", 1, "algo.intensity", lambda n: 256 * n / 64),
        ("learning rate", 1e-4, "algo.learning_rate", same),
        ("Adam epsilon", 0.005 / 256, "algo.optimizer_eps", same),
        ("optimizer", "adam", "algo.optimizer", same),
        ("discount rate", 0.997, "algo.gamma", same),
        ("n-step", 3, "algo.n_step", same),
        ("gradient clipping", 10.0, "algo.clip_grad_norm", same),
        ("target update interval, in updates", 500, "algo.target_interval", same),
        ("target update interval, in updates", True, "algo.target_unit", lambda _: "updates"),
        ("number of taus", 8, "algo.quantiles", same),
        ("number of taus", 8, "algo.target_quantiles", same),
        ("number of taus", 8, "algo.value_quantiles", same),
        ("number of cosines", 64, "algo.cosines", same),
        ("kappa", 1.0, "algo.huber", same),
        ("dueling, noisy", True, "algo.dueling", same),
        ("dueling, noisy", True, "algo.noisy", same),
        ("noisy sigma0", 0.5, "algo.noisy_sigma", same),
        ("Munchausen alpha", 0.9, "algo.munchausen", same),
        ("Munchausen tau", 0.03, "algo.munchausen_temperature", same),
        ("network of the log-policy", "online", "algo.munchausen_policy", same),
        ("replay size", 2**20, "algo.replay.size", same),
        ("replay start", 200_000, "algo.replay.start", same),
        ("PER alpha", 0.2, "algo.replay.alpha", same),
        ("PER beta", 0.2, "algo.replay.beta", same),
        ("PER beta", 0.2, "algo.replay.beta_final", same),
        ("epsilon's factor a transition", 1 - 1 / 2_000_000, "algo.epsilon_steps", lambda f: round(1 / (1 - f))),
        ("frames until epsilon is 0", 100_000_000, "algo.epsilon_until", lambda n: n // 4),
        ("final epsilon", 0.01, "algo.epsilon_final", same),
    ],
    ("stooke2018", "a2c"): [
        ("environments x horizon", (16, 5), "sampler.envs", lambda s: s[0]),
        ("environments x horizon", (16, 5), "sampler.horizon", lambda s: s[1]),
        ("learning rate", 7e-4, "algo.learning_rate", same),
        ("lasagne rmsprop rho", 0.9, "algo.rmsprop_alpha", same),
        ("lasagne rmsprop epsilon", 1e-6, "algo.optimizer_eps", same),
    ],
    ("stooke2018", "ppo"): [
        ("environments x horizon", (8, 256), "sampler.envs", lambda s: s[0]),
        ("environments x horizon", (8, 256), "sampler.horizon", lambda s: s[1]),
        ("minibatch", 512, "algo.minibatch", same),
        ("value_coefficient", 1.0, "algo.value_coefficient", same),
        ("normalize_advantage", False, "algo.normalize_advantage", lambda on: "minibatch" if on else "none"),
        ("clip_schedule", "linear", "algo.clip_schedule", same),
    ],
    ("stooke2018", "dqn"): [("section 5.1", "three convolutions, padded", "algo.network", lambda _: "dqn")],
    ("stooke2018", "c51"): [("section 5.1", "three convolutions, padded", "algo.network", lambda _: "dqn")],
    ("stooke2018", "rainbow"): [("section 5.1", "three convolutions, padded", "algo.network", lambda _: "dqn")],
    ("mnih2015", "dqn"): [
        ("minibatch size", 32, "algo.batch_size", same),
        ("replay memory size", 1_000_000, "algo.replay.size", same),
        ("agent history length", 4, "env.protocol", lambda _: "mnih2015"),
        ("target network update frequency", 10_000, "algo.target_interval", same),
        ("target network update frequency, in updates", True, "algo.target_unit", lambda _: "updates"),
        ("discount factor", 0.99, "algo.gamma", same),
        ("update frequency", 4, "algo.intensity", lambda n: 32 / n),
        ("learning rate", 0.00025, "algo.learning_rate", same),
        ("squared gradient momentum", 0.95, "algo.rmsprop_alpha", same),
        ("min squared gradient", 0.01, "algo.optimizer_eps", same),
        ("initial exploration", 1.0, "algo.epsilon", same),
        ("final exploration", 0.1, "algo.epsilon_final", same),
        ("final exploration frame", 1_000_000, "algo.epsilon_steps", same),
        ("replay start size", 50_000, "algo.replay.start", same),
        ("epsilon of the evaluation", 0.05, "algo.epsilon_evaluation", same),
        ("frames in training", 50_000_000, "env_steps", same),
    ],
    ("vanhasselt2019", "rainbow"): [
        ("training frames", 400_000, "env_steps", lambda n: n // 4),
        ("min replay size for sampling", 1_600, "algo.replay.start", same),
        ("replay period", 1, "algo.intensity", lambda n: 32.0 / n),
        ("multi-step return length", 20, "algo.n_step", same),
        (
            "Q network: channels, filter, stride, hidden units",
            "32, 64; 5x5; 5; 256",
            "algo.network",
            lambda _: "data-efficient",
        ),
        ("target network period", 2_000, "algo.target_interval", same),
        ("target network period, in updates", True, "algo.target_unit", lambda _: "updates"),
        ("noisy nets parameter", 0.1, "algo.noisy_sigma", same),
        ("learning rate", 1e-4, "algo.learning_rate", same),
        ("Adam epsilon", 1.5e-4, "algo.optimizer_eps", lambda e: 32 * e),
        ("max gradient norm", 10, "algo.clip_grad_norm", float),
        ("priority exponent", 0.5, "algo.replay.alpha", same),
        ("priority correction", (0.4, 1), "algo.replay.beta", lambda b: b[0]),
        ("priority correction", (0.4, 1), "algo.replay.beta_final", lambda b: float(b[1])),
        ("double, dueling", True, "algo.double", same),
        ("double, dueling", True, "algo.dueling", same),
        *ATOMS,
    ],
    ("pqn2024", "pqn"): [
        *PUREJAXQL,
        ("TOTAL_TIMESTEPS", 5e7, "env_steps", int),
        ("NORM_TYPE", "layer_norm", "algo.layer_norm", lambda _: "before-channels"),
        ("CNN", "32x8x8/4, 64x4x4/2, 64x3x3/1, 512", "algo.network", lambda _: "nature"),
    ],
    ("hadamax2025", "pqn"): [
        *PUREJAXQL,
        ("TOTAL_TIMESTEPS", 1e7, "env_steps", int),
        ("ENCODER", "hadamax", "algo.network", same),
    ],
}


def test_every_preset_has_a_source():
    assert {(name, a) for name, (_, algorithms) in PRESETS.items() for a in algorithms} == set(SOURCES)


@pytest.mark.parametrize(("preset", "algorithm"), SOURCES)
def test_each_field_is_the_sources(preset, algorithm):
    config = with_preset(default_config(algorithm), preset)
    config.check()
    assert config.preset == preset
    for name, value, setting, translated in SOURCES[preset, algorithm]:
        found = config
        for part in setting.split("."):
            found = getattr(found, part)
        assert found == pytest.approx(translated(value)) if isinstance(found, float) else found == translated(value), (
            name
        )


def test_other_options_override_a_preset():
    config = parse_train(["ppo", "--game", "pong", "--envs", "16", "--preset", "cleanrl"], "accel-rl train", "")
    assert (config.preset, config.sampler.envs, config.sampler.horizon, config.algo.clip) == ("cleanrl", 16, 128, 0.1)


@pytest.mark.parametrize(
    ("algorithm", "preset", "line"),
    [
        ("ppo", "cleanr", "--preset cleanr: must be cleanrl, sb3, .*; nearest: cleanrl"),
        ("a2c", "cleanrl", "--preset cleanrl: has settings of ppo, dqn, c51, pqn, not of a2c"),
    ],
)
def test_a_preset_that_does_not_exist_is_one_line(algorithm, preset, line):
    with pytest.raises(ConfigError, match=line) as e:
        with_preset(default_config(algorithm), preset)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["dqn", "c51", "qrdqn", "rainbow"])
def test_the_guard_is_for_q_learning(name):
    """Nair et al. 2015, section 4.2, discard gradients whose absolute DQN loss is an outlier."""
    assert on_gorila(default_config(name)).gorila.outlier_deviations == 5.0


def test_the_guard_is_for_clipped_rewards():
    """Outlier gradients are not discarded if rewards are unclipped, as in Gymnasium environments or R2D2."""
    assert on_gorila(default_config("r2d2")).gorila.outlier_deviations == 0.0
    config = on_gorila(default_config("dqn"), is_atari=False)
    assert config.gorila.outlier_deviations == 0.0
    resolve(replace(config, env=replace(config.env, id="CartPole-v1")))
    words = ["dqn", "--env", "CartPole-v1", "--cluster", "gorila"]
    assert parse_train(words, "accel-rl train", "").gorila.outlier_deviations == 0.0
    assert settings("dqn", "CartPole-v1", {"cluster": "gorila"}).gorila.outlier_deviations == 0.0


@pytest.mark.parametrize("name", ["a2c", "ppo", "impala"])
def test_policy_gradients_have_no_guard(name):
    assert on_gorila(default_config(name)).gorila.outlier_deviations == 0.0


def test_the_optimizer_is_one_whose_rate_was_tried():
    algo: Any = on_gorila(default_config("dqn")).algo
    assert (algo.optimizer, algo.learning_rate, algo.network) == ("rmsprop", 2.5e-4, "nature")


def test_an_experiment_keeps_its_guard():
    config = default_config("dqn")
    config = replace(config, gorila=replace(config.gorila, outlier_deviations=3.0))
    assert on_gorila(config).gorila.outlier_deviations == 3.0


def test_without_reward_clipping_the_guard_is_refused():
    config = on_gorila(default_config("dqn"))
    config = replace(config, env=replace(config.env, game="pong"), algo=replace(config.algo, reward_clip=0.0))
    with pytest.raises(ConfigError, match=r"--gorila\.outlier-deviations 5: must be 0 with --algo\.reward-clip 0"):
        resolve(config)


def test_what_a_reward_adds_to_a_loss():
    """A clipped reward that changes from -1 to 1 adds an error of 2, or a Huber loss of 1.5, to the sum over a batch of
    8."""
    made = DQN(DQN.Config(batch_size=8, reward_clip=1.0), SPEC, T=2, B=2)
    assert made.config.usual_loss() == pytest.approx(1.5 / 8)
    squared = DQN(DQN.Config(batch_size=8, huber=0.0, reward_clip=0.5), SPEC, T=2, B=2)
    assert squared.config.usual_loss() == pytest.approx(0.5 / 8)
    distribution = C51(C51.Config(batch_size=8, reward_clip=1.0), SPEC, T=2, B=2)
    assert distribution.config.usual_loss() == pytest.approx(13.8155 / 8)
