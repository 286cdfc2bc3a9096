"""Quota, which selects the episodes that count in an evaluation, favours neither short nor long episodes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from accel_rl.envs.make import make_spec
from accel_rl.samplers.episodes import Episode
from accel_rl.settings.outputs import EvaluationConfig
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config
from accel_rl.training.evaluation import Evaluation, Quota
from accel_rl.training.evaluator import CHUNK, evaluation_env


def play(quota: Quota, B: int, draw, chunk: int = CHUNK) -> list[Episode]:
    """Simulate an evaluation with B environments, in which an episode's score is its length. Returns the counted
    episodes."""
    left = [draw() for _ in range(B)]
    begun = list(left)
    counted: list[Episode] = []
    while not quota.idle.all():
        finished = []
        for _ in range(chunk):
            for b in np.flatnonzero(~quota.idle):
                left[b] -= 1
                if left[b] == 0:
                    finished.append(Episode(float(begun[b]), begun[b], int(b)))
                    left[b] = begun[b] = draw()
        counted += quota.count(finished)
    return counted


def two_lengths(rng: np.random.Generator):
    """Return a function that draws lengths of episodes: 10 % have 300 steps, and 90 % have 5."""
    return lambda: 300 if rng.random() < 0.1 else 5


TRUE_MEAN = 0.1 * 300 + 0.9 * 5


def drop_unfinished(B: int, steps: int, draw) -> list[int]:
    """Return the lengths of the episodes that a biased rule counts: all that end within a fixed number of steps."""
    counted = []
    for _ in range(B):
        used = 0
        while used + (length := draw()) <= steps // B:
            used += length
            counted.append(length)
    return counted


def z_of_ratio(sums: np.ndarray, counts: np.ndarray) -> float:
    """Return (mean over all episodes - TRUE_MEAN) in standard errors, for the evaluations' sums and counts of
    scores."""
    mean = sums.sum() / counts.sum()
    error = np.sqrt(((sums - mean * counts) ** 2).sum()) / counts.sum()
    return float((mean - TRUE_MEAN) / error)


def test_the_rule_by_steps_does_not_favour_short_episodes():
    draw, B, steps, evaluations = two_lengths(np.random.default_rng(1)), 4, 1600, 200
    by_rule = [[e.score for e in play(Quota(B, steps, 0), B, draw, 64)] for _ in range(evaluations)]
    by_dropping = [drop_unfinished(B, steps, draw) for _ in range(evaluations)]

    def z(scores):
        return z_of_ratio(np.array([sum(s) for s in scores]), np.array([len(s) for s in scores]))

    assert abs(z(by_rule)) < 3.5
    assert z(by_dropping) < -6  # The z value reveals the bias of `drop_unfinished`.


def test_the_rule_by_episodes_favours_none():
    draw, B = two_lengths(np.random.default_rng(2)), 3
    means = np.array([np.mean([e.score for e in play(Quota(B, 0, 7), B, draw, 64)]) for _ in range(300)])
    assert abs(means.mean() - TRUE_MEAN) < 3.5 * means.std() / np.sqrt(len(means))


def test_by_steps_each_finishes_what_it_began_within_its_share():
    quota = Quota(B=2, steps=100, episodes=0)

    def count(*episodes):
        return [(e.b, e.length) for e in quota.count([Episode(0.0, n, b) for b, n in episodes])]

    assert count((0, 49), (1, 50)) == [(0, 49), (1, 50)]
    # Environment 0 has 1 of its 50 steps left, and begins one more episode, which counts whatever its length.
    assert quota.idle.tolist() == [False, True]
    assert count((1, 3), (0, 1000), (0, 2)) == [(0, 1000)]
    assert quota.idle.tolist() == [True, True]


@pytest.mark.parametrize(("B", "steps", "least"), [(3, 100, 34), (4, 100, 25), (4, 0, 1), (1, 7, 7)])
def test_shares_cover_the_budget(B, steps, least):
    quota = Quota(B, steps, 0)
    for n in range(1, least + 1):
        assert not quota.idle.any()
        assert len(quota.count([Episode(1.0, 1, b) for b in range(B)])) == B, n
    assert quota.idle.all()


@pytest.mark.parametrize(("B", "episodes"), [(1, 1), (4, 4), (4, 10), (3, 100), (16, 17)])
def test_by_episodes_exactly_so_many_count(B, episodes):
    counted = play(Quota(B, 10**9, episodes), B, two_lengths(np.random.default_rng(2)), 200)
    assert len(counted) == episodes
    each = np.bincount([e.b for e in counted], minlength=B)
    # Environments count equal numbers of episodes, whether they are fast or slow.
    assert each.max() - each.min() <= 1


def test_result():
    e = Evaluation((1.0, 3.0), (10, 20), {"name": "x"})
    assert e.to_dict() == {
        "score_mean": 2.0,
        "score_std": 1.0,
        "episodes": 2,
        "steps": 30,
        "scores": [1.0, 3.0],
        "lengths": [10, 20],
        "protocol": {"name": "x"},
    }
    assert math.isnan(Evaluation((), (), {}).mean) and math.isnan(Evaluation((), (), {}).std)


def test_the_shorter_time_limit_counts():
    config = default_config("a2c")
    config = fill_in(replace(config, env=replace(config.env, game="pong")))
    own = config.env.rules().for_evaluation().max_episode_steps
    for max_episode_steps in (own - 1, own + 1):
        spec = make_spec(
            evaluation_env(replace(config, evaluation=EvaluationConfig(max_episode_steps=max_episode_steps))),
            training=False,
        )
        assert spec.protocol["max_episode_steps"] == min(own, max_episode_steps)


@pytest.mark.parametrize(
    ("interval", "env_steps", "steps"),
    [(1_000_000, 1_500_000, 125_000), (250_000, 1_010_000, 31_250), (1_000_000, 80_000, 10_000), (10**6, 4, 1)],
)
def test_all_evaluations_of_a_run_have_one_size(interval, env_steps, steps):
    """The evaluation at a run's end has the size of all other evaluations, even if few env steps precede it."""
    assert EvaluationConfig(interval=interval).size(env_steps) == steps
