"""A user's vector environment of torch tensors, in the device engine, gives the same rollouts as its numpy version."""

import json
from functools import partial

import pytest
import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.envs.environment import EnvError
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.samplers.device_engine import DeviceEngine
from accel_rl.samplers.device_vectorized import made_on_device
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.integration.runs import run
from tests.samplers.test_device_engine import assert_equal

T, B = 11, 6
TENSORS = "tests.tensor_environments:make"
MODES = ("NextStep", "SameStep", "Disabled")


def setup_of(id: str, mode: str, groups: int) -> EngineSetup:
    env: EnvConfig = env_of(id=id, kwargs=json.dumps({"mode": mode}))
    return EngineSetup(env, make_spec(env, training=True), Grouping(B, groups, 1), T, seed=3)


def on_device(mode: str, groups: int) -> Sampler:
    setup = setup_of(TENSORS, mode, groups)
    device = torch.device("cpu")
    engine = DeviceEngine(setup, device, partial(made_on_device, setup, device))
    return Sampler(engine, setup.spec, 3, memory=engine.memory)


def in_process(mode: str, groups: int) -> Sampler:
    setup = setup_of("tests.vector_environments:make_counting", mode, groups)
    return Sampler(InProcessEngine(setup), setup.spec, 3)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_rollouts_are_those_of_the_environment_in_numpy(mode, groups):
    agent = RandomAgent(2)
    first, second = in_process(mode, groups), on_device(mode, groups)
    for _ in range(4):
        assert_equal(first.collect(agent), second.collect(agent))
        assert first.finished == second.finished
    assert first.episodes.count == second.episodes.count > 20


@pytest.mark.parametrize("mode", MODES)
def test_episodes_that_were_not_saved_are_truncated(mode):
    first, second = in_process(mode, 1), on_device(mode, 1)
    for sampler in (first, second):
        sampler.collect(RandomAgent(2))
    with pytest.warns(UserWarning, match="has no get_state and set_state: new episodes begin"):
        for sampler in (first, second):
            sampler.engine.set_state(sampler.engine.get_state())
    assert_equal(first.collect(RandomAgent(2)), second.collect(RandomAgent(2)))


def test_an_end_without_its_last_observation_is_one_line():
    setup = setup_of(TENSORS + "_without_final_obs", "SameStep", 1)
    device = torch.device("cpu")
    sampler = Sampler(DeviceEngine(setup, device, partial(made_on_device, setup, device)), setup.spec, 3)
    with pytest.raises(
        EnvError, match="failed at a step: ValueError: info has no final_obs, which mode SameStep needs"
    ):
        sampler.collect(RandomAgent(2))


def test_observations_must_be_a_box():
    env = env_of(id="tests.tensor_environments:make_dict")
    setup = EngineSetup(env, make_spec(env, training=True), Grouping(2, 1, 1), T, seed=0)
    with pytest.raises(ConfigError, match="observes a Dict: --sampler"):
        made_on_device(setup, torch.device("cpu"), [0, 1], 0)


@pytest.mark.slow
def test_a_run_trains_and_resumes(tmp_path):
    args = ("train", "a2c", "--env", TENSORS, "--engine", "device", "--device", "cpu", "--envs", 8, "--horizon", 8)
    assert run(*args, "--env-steps", 512, "--evaluation.interval", 256, "--run-dir", tmp_path / "run").returncode == 0
    assert run("resume", tmp_path / "run", "--env-steps", 768, "--trust").returncode == 0


def test_single_environments_are_refused(tmp_path):
    done = run("train", "a2c", "--env", "CartPole-v1", "--engine", "device", "--run-dir", tmp_path / "run")
    assert done.returncode == 2 and "plays Atari games and vector environments" in done.stderr
