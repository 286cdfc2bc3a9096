"""A user's vector environment as a batch, in each autoreset mode."""

import numpy as np
import pytest

import accel_rl
from accel_rl import ConfigError
from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.vectorized import VectorizedEnv, is_vectorized
from tests.integration.runs import resumed_equals

HERE = "tests.vector_environments:"
MODES = ("NextStep", "SameStep", "Disabled")


def rollout(mode: str, name: str = "make_counting", steps: int = 60, skip: bool = False):
    """Play `steps` steps of a user's vector environment. Return the batch and, for each step, (observations before the
    step, a copy of the step, actions)."""
    env = VectorizedEnv(HERE + name, 4, seed=3, stack=1, kwargs={"mode": mode})
    rng, out, found = np.random.default_rng(0), Step.empty(4, env.spec), []
    env.reset(out)
    assert not out.age.any() and out.valid.all()
    for _ in range(steps):
        action = rng.integers(-1 if skip else 0, 2, 4)
        before = out.frame.copy()
        env.send(action)
        env.recv(out)
        found.append((before, Step(**{name: getattr(out, name).copy() for name in Step.__slots__}), action))
    return env, found


@pytest.mark.parametrize("mode", MODES)
def test_episodes_are_those_of_the_environment(mode):
    """Each environment's transitions are consecutive: its observations are (number of the episode, number of the step,
    number of the environment)."""
    _, found = rollout(mode)
    for i in range(4):
        expected: tuple[float, float] | None = None
        for before, out, action in found:
            episode, t, number = before[i]
            assert number == i
            if not out.valid[i]:  # only a reset
                assert mode == "NextStep" and out.reward[i] == out.age[i] == 0 and not out.ended[i]
                assert tuple(out.frame[i][:2]) == (episode + 1, 0)
                expected = (episode + 1, 0)
                continue
            if expected is not None:
                assert (episode, t) == expected
            length = 3 + (episode + i) % 5
            assert out.reward[i] == (action[i] == 1) and out.ended[i] == (t + 1 == length)
            is_cut = bool(out.ended[i]) and episode % 3 == 0
            assert out.truncated[i] == is_cut and out.terminated[i] == (out.ended[i] and not is_cut)
            if out.ended[i]:
                assert tuple(out.final_frame[i]) == (episode, length, i)
            starts = out.ended[i] and mode != "NextStep"
            expected = (episode + 1, 0) if starts else (episode, t + 1)
            assert tuple(out.frame[i][:2]) == expected
            assert out.age[i] == (0 if starts else 1)


def test_skipped_environments_are_not_counted():
    _, found = rollout("SameStep", skip=True)
    for _, out, action in found:
        assert (
            (out.valid == (action >= 0)).all() and not out.reward[~out.valid].any() and not out.ended[~out.valid].any()
        )


def test_a_saved_state_continues_exactly():
    env, _ = rollout("NextStep", "make_saved", steps=23)
    other = VectorizedEnv(env.id, 4, seed=8, stack=1, kwargs={"mode": "NextStep"})
    other.set_state(env.get_state())
    a, b = (Step.empty(4, env.spec) for _ in range(2))
    for t in range(20):
        for e, out in ((env, a), (other, b)):
            e.send(np.full(4, t % 2))
            e.recv(out)
        for name in Step.__slots__:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("mode", MODES)
def test_without_saved_states_new_episodes_begin(mode):
    env, found = rollout(mode, steps=23)
    other = VectorizedEnv(env.id, 4, seed=3, stack=1, kwargs={"mode": mode})
    with pytest.warns(UserWarning, match="has no get_state and set_state: new episodes begin"):
        other.set_state(env.get_state())
    out = Step.empty(4, env.spec)
    other.send(np.ones(4, np.int64))
    other.recv(out)
    waiting = found[-1][1].ended if mode == "NextStep" else np.zeros(4, bool)
    np.testing.assert_array_equal(out.truncated, ~waiting)
    np.testing.assert_array_equal(out.final_frame[~waiting], found[-1][1].frame[~waiting])
    assert not out.reward.any() and not out.frame[:, 1].any()
    other.send(np.ones(4, np.int64))
    other.recv(out)
    assert out.valid.all() and (out.frame[:, 1] == 1).all()


def test_functions_without_num_envs_are_not_vectorized():
    assert is_vectorized(HERE + "make_counting") and not is_vectorized("tests.environments:raises")
    assert not is_vectorized("CartPole-v1")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("make_too_many", {}, "returned 2 environments: must be a gymnasium.vector.VectorEnv of num_envs=1"),
        ("make_one", {}, "must be a gymnasium.vector.VectorEnv"),
        ("make_counting", {"sampler__reset": "wait"}, "resets itself; use immediate"),
        ("make_counting", {"env__max_episode_steps": 9}, "has its own time limit"),
    ],
)
def test_bad_input_is_one_line(name, options, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        accel_rl.train("a2c", env=HERE + name, env_steps=64, run_dir=tmp_path / "run", **options)


def test_an_error_of_the_environment_is_one_line(tmp_path):
    with pytest.raises(accel_rl.RunError, match=r"make_failing failed at a step: OSError: no server answers"):
        accel_rl.train("a2c", env=HERE + "make_failing", env_steps=64, engine="in-process", run_dir=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["in-process", "workers"])
def test_ppo_learns_cart_pole(engine, tmp_path):
    trained = accel_rl.train(
        "ppo", env=HERE + "make_pole", envs=8, horizon=64, minibatch=64, learning_rate=2e-3, engine=engine, workers=1,
        env_steps=12_000, seed=1, torch_threads=1, evaluation__interval=0, run_dir=tmp_path / "run",
    )  # fmt: skip
    assert trained.result.score > 60
    assert trained.evaluate(5).mean > 100


ARGS = (
    "train", "dqn", "--env", HERE + "make_saved", "--envs", 8, "--horizon", 4, "--evaluation.interval", 0,
    "--checkpoint.interval", 256, "--log.interval", 128, "--seed", 3, "--replay.start", 64, "--replay.size", 2_000,
    "--n-step", 3, "--epsilon-steps", 500,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--ranks", 2), ("--sampler.engine", "in-process")])
def test_a_resumed_run_equals_an_uninterrupted_one(more, tmp_path):
    assert resumed_equals(tmp_path, *ARGS, *more)
