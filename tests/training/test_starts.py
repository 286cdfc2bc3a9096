"""Start points are recorded from episodes, evaluations begin at these points, and a random agent acts at 10 Hz."""

import os
import signal
from contextlib import closing
from dataclasses import replace

import pytest

from accel_rl.agents.agent import StickyRandomAgent
from accel_rl.envs.make import make_spec
from accel_rl.envs.start_points import NOTE, StartPoints
from accel_rl.planning.plan import RankPlan
from accel_rl.settings.resolved import fill_in, resolve
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from accel_rl.training.evaluator import RANDOM_AGENT_FRAMES, Evaluator, at_10_hz, evaluate_random
from accel_rl.training.record_starts import KEEP, record, recorded_env
from tests.env_settings import env_of
from tests.marks import slow
from tests.training.test_evaluator import config_of, learner_of

PONG = env_of(game="pong", protocol="mnih2015", repeat_action_probability=0.25)


def points_of(game: str = "pong", seed: int = 0, **sizes: int) -> StartPoints:
    base = default_config("dqn")
    config = fill_in(replace(base, env=recorded_env(env_of(game=game))))
    agent = StickyRandomAgent(make_spec(config.env, training=False).n_actions, KEEP)
    return record(config, agent, "tests", **{"points": 5, "games": 2, "steps": 60, "seed": seed, **sizes})


def test_points_follow_from_the_arguments():
    points = points_of()
    assert points == points_of() != points_of(seed=1)
    assert len(points) == 5 and len(set(points.points)) == 5 and len(points.games) == 2
    assert all(0 < p.steps < 60 for p in points.points) and points.frame_skip == 4
    with pytest.raises(ConfigError, match="--games 0"):
        points_of(games=0)
    with pytest.raises(ConfigError, match="from 1 to 3"):
        points_of(games=1, steps=4)


# Workers: test_a_lost_worker_does_not_change_which_starts_are_played.
@pytest.mark.parametrize("engine", [slow("workers"), "in-process"])
def test_each_start_is_played_once_up_to_the_limit(engine, tmp_path):
    points, file, limit = points_of(), tmp_path / "starts.json", 90
    points.save(file)
    config = config_of(PONG, engine)
    evaluation = replace(
        config.evaluation, starts="saved", starts_file=str(file), max_episode_steps=limit, episodes=30, parallel=3
    )
    config = resolve(replace(config, evaluation=evaluation))
    agent = learner_of(config).algo.agent.evaluating(False)
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        first, again = (evaluator.evaluate(agent, steps=1_000, seed=3) for _ in range(2))
    assert first == again
    assert sorted(first.lengths) == sorted(limit - p.steps for p in points.points)
    assert first.protocol["starts"] == "saved" and first.protocol["starts_note"] == NOTE
    assert first.protocol["max_episode_steps"] == limit


@pytest.mark.slow
def test_a_lost_worker_does_not_change_which_starts_are_played(tmp_path):
    file = tmp_path / "starts.json"
    points_of().save(file)
    config = config_of(PONG)
    evaluation = replace(config.evaluation, starts="saved", starts_file=str(file), max_episode_steps=150, parallel=2)
    config = fill_in(replace(config, evaluation=evaluation))
    agent = learner_of(config).algo.agent.evaluating(False)
    with closing(Evaluator(config, RankPlan.resolve(config, device="cpu"))) as evaluator:
        wanted = evaluator.evaluate(agent, steps=1_000, seed=3)
        pool = evaluator._sampler.engine
        pids, killed = pool.pids(), []

        def kill_after_an_episode() -> bool:
            if evaluator._sampler.episodes.count and not killed:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])
            return False

        found = evaluator.evaluate(agent, steps=1_000, seed=3, stop=kill_after_an_episode)
        assert found == wanted and pids[0] not in pool.pids()


def test_the_protocols_limit_is_for_no_op_starts():
    config = config_of(replace(PONG, repeat_action_probability=None))
    saved = replace(config, evaluation=replace(config.evaluation, starts="saved", starts_file="x"))
    assert (config.evaluation_limit, saved.evaluation_limit) == (4_500, 27_000)
    chosen = replace(saved, env=replace(saved.env, max_evaluation_steps=900))
    assert chosen.evaluation_limit == 900


def test_random_play_at_10_hz_from_the_same_starts(tmp_path):
    points, file = points_of(), tmp_path / "starts.json"
    points.save(file)
    config = config_of(replace(PONG, repeat_action_probability=None), "in-process")
    evaluation = replace(config.evaluation, starts="saved", starts_file=str(file), max_episode_steps=90)
    config = fill_in(replace(config, evaluation=evaluation))
    limit = 90 * 4 // RANDOM_AGENT_FRAMES
    assert at_10_hz(config).evaluation_limit == limit and at_10_hz(config).env.frame_skip == 6
    found = evaluate_random(config, RankPlan.resolve(config, device="cpu"), steps=0, seed=1)
    assert sorted(found.lengths) == sorted(
        limit - -(-points.frames(i) // RANDOM_AGENT_FRAMES) for i in range(len(points))
    )
    assert found.protocol["frame_skip"] == 6 and found.protocol["starts"] == "saved"
    with pytest.raises(ConfigError, match="CartPole"):
        at_10_hz(replace(config, env=env_of(id="CartPole-v1")))
