"""The points in frames that a protocol plays by itself after a lost life, such as FIRE, count for the score, but not as
rewards."""

import numpy as np
import pytest

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.envs.make import EnvConfig, make_batch, resolve_env
from accel_rl.samplers.episodes import EpisodeTracker
from tests.marks import slow

STEPS, STATE_AT = 3_000, 1_100  # FIRE frames of the protocol first score points at step 1,042.


def play(backend, resumes=False, counted=None):
    """Play STEPS random actions, and return the scores of the episodes and the sum of the rewards."""
    config = resolve_env(EnvConfig(game="atlantis", protocol="cleanrl2022", backend=backend))
    env = make_batch(config, [3], True)
    if counted is not None:
        inner = env.envs[0]
        act = inner._act
        inner._act = lambda code: counted.append(points := act(code)) or points
    arrays = RolloutArrays.zeros(env.spec, STEPS, 1)
    tracker, actions = EpisodeTracker(1), np.random.default_rng(0).integers(env.spec.n_actions, size=(STEPS, 1))
    env.reset(arrays.step(0, slice(0, 1)))
    if counted is not None:
        counted.clear()
    for t, action in enumerate(actions):
        if resumes and t == STATE_AT:
            state = env.get_state()
            env = make_batch(config, [5], True)
            env.reset(arrays.step(t, slice(0, 1)))
            env.set_state(state)
        env.send(action)
        env.recv(arrays.step(t, slice(0, 1)))
        if arrays.ended[t, 0]:
            break
    arrays.valid[t + 1 :] = arrays.ended[t + 1 :] = False
    return [e.score for e in tracker.add(arrays)], float(arrays.reward[: t + 1].sum())


def test_the_score_has_the_points_of_forced_frames():
    """A score is the sum of all points of the game, as in OpenAI baselines, where the innermost wrapper records
    scores."""
    counted: list[int] = []
    (score,), rewards = play("ale", counted=counted)
    assert score == sum(counted) > rewards


@pytest.mark.parametrize("resumes", [slow(False), slow(True)])
def test_the_emulator_counts_the_same_points_also_over_a_resume(resumes):
    assert play("emulator", resumes) == play("ale", resumes) == (whole := play("emulator")) and whole[0]
