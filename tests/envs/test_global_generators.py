"""Each environment that draws from the global generators of `numpy.random` and `random` has its own states of these
generators."""

import random
import warnings

import numpy as np
import pytest

from accel_rl.envs import global_generators
from accel_rl.envs.global_generators import OwnGenerators
from accel_rl.envs.gymnasium import GymnasiumEnv
from accel_rl.text import notes
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import digest, make_agent, make_sampler

CARELESS = env_of(id="tests.environments:Careless")


def draw(n=1):
    """Draw numbers from both global generators. A generator that draws a normal number stores a second one for the next
    draw."""
    return [(np.random.rand(), np.random.randn(), random.random(), random.gauss(0, 1)) for _ in range(n)]


def seed(n):
    np.random.seed(n)
    random.seed(n)


@pytest.fixture(autouse=True)
def global_states():
    states = np.random.get_state(), random.getstate()
    yield
    np.random.set_state(states[0])
    random.setstate(states[1])


@pytest.mark.parametrize("before", [0, 1, 2])
def test_draws_within_are_those_of_a_seed_and_draws_outside_go_on(before):
    seed(7)
    inner = draw(4)
    seed(1)
    outer = draw(before + 4)[before:]
    own = OwnGenerators(3)
    own.seed(7)
    seed(1)
    draw(before)
    found = []
    for i in range(4):
        with own:
            found += draw(1)
        assert draw(1) == outer[i : i + 1]
    # When a `with own` block ends, the second normal number that numpy has stored is lost.
    assert [x[:1] + x[2:] for x in found[:1]] == [x[:1] + x[2:] for x in inner[:1]] and found[0] == inner[0]
    assert len({x[0] for x in found}) == 4


def test_a_generator_that_is_not_drawn_from_stays():
    own, outer = OwnGenerators(3), []
    for _ in range(2):
        seed(1)
        draw(1)
        for _ in range(3):
            with own:
                pass
        outer.append(draw(2))
    seed(1)
    draw(1)
    assert outer == [draw(2)] * 2


def test_an_error_leaves_the_global_generators_as_they_were():
    seed(1)
    expected = draw(2)
    seed(1)
    with pytest.raises(ZeroDivisionError), OwnGenerators(3):
        draw(3)
        raise ZeroDivisionError
    assert draw(2) == expected


def frames(env, actions=30):
    frame, found = np.zeros(env.spec.frame_shape, env.spec.frame_dtype), []
    env.reset(frame)
    for _ in range(actions):
        found.append((frame.copy().tobytes(), env.step(0, frame)))
        if found[-1][1][3]:
            env.reset(frame)
    return found


def test_a_careless_environment_repeats_and_does_not_disturb_its_process():
    seed(1)
    expected, one = draw(3), frames(GymnasiumEnv(CARELESS.id, seed=5))
    seed(1)
    a = draw(1)
    two = frames(GymnasiumEnv(CARELESS.id, seed=5))
    assert a + draw(2) == expected and one == two
    assert one != frames(GymnasiumEnv(CARELESS.id, seed=6))


@pytest.mark.parametrize(("groups", "workers"), [(1, 0), (2, 0), slow(2, 1), (2, 2)])
def test_rollouts_do_not_depend_on_the_engine_or_on_workers(groups, workers):
    sampler, agent = make_sampler(CARELESS, 4, groups, workers), make_agent(CARELESS)
    serial = make_sampler(CARELESS, 4, groups, 0)
    try:
        assert digest(sampler, agent, 6) == digest(serial, agent, 6)
    finally:
        sampler.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("reset", ["immediate", slow("swap")])
def test_a_restored_environment_continues_with_the_same_numbers(workers, reset):
    agent = make_agent(CARELESS)
    whole, resumed = (make_sampler(CARELESS, 4, 2, workers, reset=reset, decorrelation_steps=9) for _ in range(2))
    try:
        digest(whole, agent, 3)
        resumed.load_state_dict(whole.state_dict())
        assert digest(whole, agent, 6) == digest(resumed, agent, 6)
    finally:
        whole.close()
        resumed.close()


def test_an_unknown_layout_of_the_generators_is_said(monkeypatch):
    monkeypatch.setattr(global_generators, "_is_known", lambda: False)
    monkeypatch.setattr(notes, "_said", set())
    with pytest.warns(UserWarning, match="do not repeat with the seed"):
        global_generators.OwnGenerators(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        global_generators.OwnGenerators(1, is_needed=False)
