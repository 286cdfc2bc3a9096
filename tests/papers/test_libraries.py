"""Our files of other libraries' scores equal the published files. A run is compared with scores of its algorithm."""

from dataclasses import replace

import numpy as np
import pytest

from accel_rl.envs.atari_games import ATARI_49, ATARI_57, GAMES, human_scale
from accel_rl.envs.protocols import PROTOCOLS
from accel_rl.metrics.nested import flat
from accel_rl.papers.libraries import library_scores
from accel_rl.papers.libraries.sources import FOLDER, read_sources
from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import default_config
from experiments.atari_100k import rainbow

SOURCES = {s.source: s for s in read_sources()}
M = 1_000_000


def config_of(algorithm, game="pong", preset="", algo=(), **env):
    config = default_config(algorithm)
    if preset:
        config = with_preset(config, preset)
    return replace(
        config,
        env=replace(config.env, game=game, **({"protocol": "cleanrl2022"} if not preset else {}) | env),
        algo=replace(config.algo, **dict(algo)),
    )


def scores_of(config, env_steps=10 * M):
    return {s.source: s for s in library_scores(dict(flat(config.to_dict())), env_steps)}


def test_every_source_has_games_rules_and_a_file():
    assert len(SOURCES) == len(read_sources())
    for s in SOURCES.values():
        assert s.where and s.averaged and s.kind in ("training", "evaluation")
        assert s.protocol in PROTOCOLS or (s.protocol == "" and s.differs == ("rules not stated",))
        assert s.games and set(s.games) <= set(GAMES)
        for points in s.games.values():
            assert np.isfinite(points.mean).all() and (np.diff(points.env_steps) > 0).all()
            assert np.isnan(points.deviation).all() or (points.deviation >= 0).all()
    for name in ("CleanRL, PPO with EnvPool in JAX", "OpenAI Baselines, PPO2, run by CleanRL"):
        assert set(SOURCES[name].games) == set(ATARI_57)
    assert set(SOURCES["Schulman et al. 2017, A2C"].games) == {*ATARI_49, "pitfall"} - {"hero"}
    curves = [s for s in SOURCES.values() if s.source.startswith("Dopamine")]
    assert {len(s.games) for s in curves} == {60} and len(curves) == 6
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.name.endswith((".csv", ".json"))) < 200_000


@pytest.mark.parametrize(
    ("source", "game", "env_steps", "mean", "deviation"),
    [
        ("CleanRL, ppo_atari.py", "breakout", 10 * M, 414.66, 28.09),
        ("CleanRL, PPO with EnvPool in JAX", "space_invaders", 10 * M, 1188.82, 80.52),
        ("CleanRL, PPO with an LSTM", "beam_rider", 10 * M, 1299.25, 509.90),
        ("OpenAI Baselines, PPO2 with an LSTM, run by CleanRL", "pong", 10 * M, 19.79, 0.67),
        ("CleanRL, pqn_atari_envpool.py", "beam_rider", 10 * M, 5753.03, 2394.70),
        ("CleanRL, dqn_atari.py", "pong", 10 * M, 20.25, 0.41),
        ("CleanRL, dqn_atari.py", "ms_pacman", 10 * M, 2109.43, 49.85),
        ("CleanRL, c51_atari.py", "yars_revenge", 10 * M, 11010.99, 904.27),
        ("CleanRL, rainbow_atari.py", "gopher", 10 * M, 8111.07, 300.60),
        ("RL Zoo, A2C of Stable-Baselines3", "pong", 10 * M, 17.292, None),
        ("RL Zoo, QR-DQN of Stable-Baselines3", "enduro", 10 * M, 3231.2, None),
        ("Schulman et al. 2017, PPO", "alien", 10 * M, 1850.3, None),
        ("Schulman et al. 2017, A2C", "alien", 10 * M, 1141.7, None),
        ("RLlib, A2C with 5 workers", "breakout", 10 * M, 374, None),
        ("Cleanba, IMPALA, one A100", "seaquest", 50 * M, 2030, 370),
        ("van Hasselt et al. 2019, data-efficient Rainbow", "kung_fu_master", 100_000, 14346.1, None),
        ("Dopamine, DQN", "pong", M, -16.58, 2.22),
        ("Dopamine, DQN (Adam + MSE in JAX)", "pong", M, -13.85, 2.83),
        ("Dopamine, C51", "pong", M, -18.89, 0.449),
        ("Dopamine, Rainbow", "pong", 20 * M, 19.64, 0.382),
        ("Dopamine, IQN", "pong", 250_000, -19.42, 0.214),
        ("Dopamine, Quantile (JAX)", "air_raid", 3 * M, 7756, 227),
    ],
)
def test_scores_are_those_of_the_originals(source, game, env_steps, mean, deviation):
    points = SOURCES[source].games[game]
    i = points.env_steps.tolist().index(env_steps)
    assert points.mean[i] == pytest.approx(mean)
    assert points.deviation[i] == pytest.approx(deviation) if deviation is not None else np.isnan(points.deviation[i])


def test_a_score_of_one_run_has_no_deviation_over_seeds():
    """RL Zoo, for example, publishes the deviation over a single run's episodes, which is no deviation over seeds."""
    single = [s for s in SOURCES.values() if s.seeds == 1]
    assert len(single) == 6 and all(np.isnan(p.deviation).all() for s in single for p in s.games.values())
    zoo = scores_of(config_of("a2c"))["RL Zoo, A2C of Stable-Baselines3"]
    assert (zoo.seeds, zoo.deviation, zoo.kind, zoo.differences) == (1, None, "evaluation", ())


def test_a_curve_is_interpolated_at_the_env_steps_of_the_run():
    """Dopamine's DQN reaches in Pong -16.58 +- 2.22 at 1 M env steps, -13.63 +- 4.57 at 1.5 M, 12.3 +- 7.95 at 20 M."""

    def dopamine(env_steps):
        return scores_of(config_of("dqn", preset="dopamine"), env_steps).get("Dopamine, DQN")

    between = dopamine(1.1 * M)
    assert between.mean == pytest.approx(-16.58 + 0.2 * (16.58 - 13.63)) and between.interpolated
    assert between.deviation == pytest.approx(2.22 + 0.2 * (4.57 - 2.22))
    assert (between.env_steps, between.seeds, between.differences) == (1_100_000, 5, ())
    point, end = dopamine(M), dopamine(50 * M)
    assert (point.mean, point.env_steps, point.interpolated) == (-16.58, M, False)
    assert (end.mean, end.env_steps, end.interpolated) == (12.3, 20 * M, False)
    assert dopamine(250_000).mean == -20.35 and dopamine(249_999) is None


def test_a_single_score_keeps_its_own_env_steps():
    score = scores_of(config_of("pqn"), M)["CleanRL, pqn_atari_envpool.py"]
    assert (score.env_steps, score.mean, score.interpolated) == (10 * M, 20.49, False)


def test_a_run_has_the_sources_of_its_algorithm_network_and_settings():
    assert list(scores_of(config_of("ppo"))) == [
        "CleanRL, ppo_atari.py", "CleanRL, PPO with EnvPool in JAX", "OpenAI Baselines, PPO2, run by CleanRL",
        "RL Zoo, PPO of Stable-Baselines3", "Schulman et al. 2017, PPO", "Cleanba, PPO, one A100",
    ]  # fmt: skip
    lstm = scores_of(config_of("ppo", algo={"lstm": 256}))
    assert list(lstm) == ["CleanRL, PPO with an LSTM", "OpenAI Baselines, PPO2 with an LSTM, run by CleanRL"]
    adam = "Dopamine, DQN (Adam + MSE in JAX)"
    dqn = {"optimizer": "adam", "huber": 0.0}
    assert adam in scores_of(config_of("dqn", algo=dqn)) and adam in scores_of(config_of("dqn", preset="dopamine"))
    for other in ({}, {"optimizer": "adam"}, {"huber": 0.0}):
        assert adam not in scores_of(config_of("dqn", algo=other))
    assert list(scores_of(config_of("rainbow"))) == ["Dopamine, Rainbow"]
    assert list(scores_of(config_of("impala", "qbert"))) == [
        "RLlib, IMPALA with 32 workers",
        "Cleanba, IMPALA, one A100",
    ]
    assert scores_of(config_of("ppo", "adventure")) == {}
    assert scores_of(config_of("ppo", "", id="CartPole-v1")) == {}
    for settings in ({}, {"algorithm": "mine:DQN", "algo.batch_size": 32, "env.game": "pong"}):
        assert list(library_scores(settings, M)) == []


def test_settings_that_a_run_does_not_name_are_the_defaults():
    found = list(library_scores({"algorithm": "c51", "env.game": "pong"}, 10 * M))
    assert found[0].source == "CleanRL, c51_atari.py" and "FIRE after resets" in found[0].differences


def test_differing_rules_are_named():
    """In Dopamine, for example, actions are sticky, and lost lives do not end episodes (accel_rl.envs.protocols)."""
    dqn = scores_of(config_of("dqn"))
    assert dqn["CleanRL, dqn_atari.py"].differences == ()
    sticky = dqn["Dopamine, DQN"]
    assert sticky.differences == ("sticky actions", "no no-ops", "no FIRE", "lives end no episode")
    assert (sticky.protocol, sticky.kind) == ("dopamine2018", "training")
    c51 = scores_of(config_of("c51", preset="dopamine"))
    assert c51["Dopamine, C51"].differences == ()
    assert c51["CleanRL, c51_atari.py"].differences == (
        "no sticky actions", "1 to 30 no-ops", "FIRE after resets", "lives end episodes",
    )  # fmt: skip
    ppo = scores_of(config_of("ppo", protocol="mnih2015"))
    assert ppo["CleanRL, ppo_atari.py"].differences == ("1 to 30 no-ops", "FIRE after resets")
    evaluation = ppo["RL Zoo, PPO of Stable-Baselines3"].differences
    assert evaluation == ("1 to 30 no-ops", "FIRE after resets", "time limit of 27000 env steps")
    cleanba = ppo["Cleanba, PPO, one A100"].differences
    assert {"sticky actions", "EnvPool's FIRE", "18 actions"} < set(cleanba)
    assert ppo["Schulman et al. 2017, PPO"].differences == ("rules not stated",)
    other = scores_of(config_of("ppo", stack=1, frame_skip=5))["CleanRL, ppo_atari.py"].differences
    assert other == ("4 frames per action", "4 stacked frames")


def test_sources_on_envpool_say_so():
    pqn = scores_of(config_of("pqn"))["CleanRL, pqn_atari_envpool.py"]
    assert pqn.protocol == "cleanrl2022" and pqn.differences == ("EnvPool's FIRE, time limit and first stack",)


def test_atari_100k_has_a_source_for_each_game():
    """The mean and median over 26 games are those that Srinivas et al. 2020, section 6.2, state for this Rainbow."""
    scaled = []
    for member in rainbow().members:
        game = member.config.env.game
        score = scores_of(member.config, 100_000)["van Hasselt et al. 2019, data-efficient Rainbow"]
        random, human = human_scale(game)
        scaled.append((score.mean - random) / (human - random))
    assert len(scaled) == 26
    assert np.mean(scaled) == pytest.approx(0.285, abs=5e-4) and np.median(scaled) == pytest.approx(0.161, abs=5e-4)
    assert "van Hasselt et al. 2019, data-efficient Rainbow" not in scores_of(config_of("rainbow"), 100_000)
