"""If an environment raises an error, the run ends with one line, or replaces the worker process if settings allow."""

import time

import numpy as np
import pytest

from accel_rl.samplers.workers import pool
from accel_rl.text.errors import RunError
from tests.env_settings import env_of
from tests.environments import AtStep
from tests.samplers.conftest import make_agent, make_sampler

HERE = "tests.environments:"


def test_an_environments_own_error_is_shown_and_ends_the_run():
    env = env_of(id=HERE + "failing")
    sampler, agent = make_sampler(env, 2, 1, 1), make_agent(env)
    try:
        with pytest.raises(RunError, match=r"environment 0: .* failed at step 3 of episode 1: ValueError: this") as e:
            sampler.collect(agent)
        assert "this environment fails at step 3" in e.value.__notes__[0]
    finally:
        sampler.close()


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ((np.zeros(5), 1.0, False, False, {}), r"the observation has the shape \(5,\), its space \(4,\)"),
        ((np.zeros(4), None, False, False, {}), "not 'NoneType'"),
        ((np.zeros(4), float("inf"), False, False, {}), "the reward is inf"),
        ((np.zeros(4), 1.0, False, {}), "expected 5, got 4"),
    ],
)
def test_a_wrong_result_names_the_environment_and_the_step(result, says, monkeypatch):
    monkeypatch.setattr(AtStep, "step", lambda self, action: result)
    env = env_of(id=HERE + "failing")
    sampler = make_sampler(env, 2, 1, 0)  # In this process.
    with pytest.raises(RunError, match=f"environment 0: .* failed at step 1 of episode 1: .*{says}"):
        sampler.collect(make_agent(env))


def test_a_worker_whose_environment_fails_is_replaced_on_demand(warned):
    env = env_of(id=HERE + "failing")
    sampler, agent = make_sampler(env, 2, 1, 1, on_error="restart"), make_agent(env)
    try:
        assert not sampler.collect(agent).valid.all()
        assert "environment 0: " in warned[0] and "takes its place" in warned[1]
    finally:
        sampler.close()


def test_a_keyboard_interrupt_of_an_environment_ends_the_run_in_a_line(capfd):
    env = env_of(id=HERE + "interrupting")
    sampler, agent = make_sampler(env, 2, 1, 1), make_agent(env)
    try:
        with pytest.raises(RunError, match=r"^worker 0 \(pid \d+\): KeyboardInterrupt: of the environment"):
            sampler.collect(agent)
        assert "Traceback" not in capfd.readouterr().err
    finally:
        sampler.close()


def test_a_dead_worker_is_noticed_while_a_process_that_it_forked_lives(warned):
    env = env_of(id=HERE + "forking")
    sampler, agent = make_sampler(env, 2, 1, 1), make_agent(env)
    try:
        sampler.start()
        began = time.monotonic()
        sampler.collect(agent)
        assert time.monotonic() - began < 10 and "exited with code 9" in warned[0]
    finally:
        sampler.close()


def test_an_environment_that_does_not_close_is_killed(warned):
    sampler = make_sampler(env_of(id=HERE + "blocks_at_close_in_a_worker"), 2, 1, 1, timeout_s=0.5)
    sampler.start()
    sampler.close()
    assert "has not closed its environments within 0.5 s" in warned[0]


def test_a_worker_that_dies_in_every_rollout_ends_the_run(monkeypatch, warned):
    monkeypatch.setattr(pool, "MAX_DEATHS_IN_A_ROW", 4)
    env = env_of(id=HERE + "dying")
    sampler, agent = make_sampler(env, 2, 1, 1, T=5), make_agent(env)
    line = r"exited with code 7, 4 times in a row: it steps .*:dying, without a whole rollout in between"
    try:
        with pytest.raises(RunError, match=line):
            while True:
                sampler.collect(agent)
    finally:
        sampler.close()
    announced = [line for line in warned if "has died 3 times in a row" in line]
    assert len(announced) >= 1 and all("the run ends after 4 deaths in a row" in line for line in announced)
    assert len(announced) <= 2  # One line a worker
