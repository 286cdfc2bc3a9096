"""Runs that are trained from Python, as in a user's script."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import accel_rl
from accel_rl import DQN, PPO, ConfigError, Run
from accel_rl.api.keywords import settings
from accel_rl.training.learner import Learner
from accel_rl.training.trainer import Trainer
from tests.integration.runs import run as run_program

SMALL = {"env": "CartPole-v1", "envs": 4, "horizon": 8, "engine": "in-process", "evaluation__interval": 0}
DQN_SMALL = {**{k: v for k, v in SMALL.items() if k != "horizon"}, "replay__start": 40, "batch_size": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return accel_rl.train(PPO.Config(minibatch=16), **SMALL, env_steps=128, run_dir=folder)


def test_a_run_is_trained_loaded_and_looked_at(trained):
    assert trained.result.env_steps == 128 and trained.config.algo == PPO.Config(minibatch=16, reward_clip=0.0)
    run = Run.load(trained.path)
    metrics = run.metrics
    assert metrics["env_steps"][-1] == 128 and len({len(x) for x in metrics.values()}) == 1
    assert np.isfinite(metrics["loss"][-1])
    evaluation = run.evaluate(episodes=3, parallel=2)
    assert len(evaluation.scores) == 3 and evaluation.mean > 0
    assert run.evaluate(episodes=3, parallel=2).scores == evaluation.scores


def test_a_run_goes_on(trained):
    run = Run.load(trained.path).resume(env_steps=1.5e2)
    assert run.result.env_steps == 160 and run.config.env_steps == 150
    # resume() must delete the folder of an old checkpoint that an earlier process could not delete.
    left = trained.path / "checkpoints/.writing-1-old-000000000128"
    left.mkdir()
    with pytest.raises(ConfigError, match="is finished"):
        run.resume()
    assert not left.exists()


def test_a_training_that_has_ended_holds_no_memory(tmp_path):
    """No Trainer or Learner remains in memory after a run: a process may train many runs with large replays."""
    before = {id(x) for x in gc.get_objects() if type(x) in (Trainer, Learner)}
    gc.disable()
    try:
        run = accel_rl.train("dqn", **DQN_SMALL, env_steps=80, run_dir=tmp_path / "run")
        run.resume(env_steps=160)
        left = [x for x in gc.get_objects() if type(x) in (Trainer, Learner) and id(x) not in before]
    finally:
        gc.enable()
    assert not left


@pytest.mark.slow
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_caller_without_gradients_trains_and_resumes(tmp_path, mode):
    with mode():
        run = accel_rl.train(PPO.Config(minibatch=16), **SMALL, env_steps=320, run_dir=tmp_path / "run")
        run = run.resume(env_steps=640)
        assert len(run.evaluate(episodes=2, parallel=2).scores) == 2
        assert not torch.is_grad_enabled()
    assert run.result.env_steps == 640 and np.isfinite(run.metrics["loss"]).all()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"episodes": 2.5}, "--episodes 2.5: must be a whole number"),
        ({"episodes": "3"}, "--episodes '3': must be a whole number"),
        ({"greedy": "no"}, "--greedy 'no': must be True or False"),
        ({"starts": "saves"}, "--starts 'saves': must be one of noop, saved"),
        ({"seed": -1}, "--seed -1: must be a whole number, 0 or more"),
        ({"seed": "x"}, "--seed 'x': must be a whole number"),
        ({"sed": 1}, "unknown option sed; nearest: seed"),
        ({"random": True, "best": True}, "--random evaluates no agent"),
    ],
)
def test_wrong_arguments_of_an_evaluation_are_one_line(trained, values, line):
    with pytest.raises(ConfigError) as e:
        trained.evaluate(**values)
    assert str(e.value).startswith(line) and "\n" not in str(e.value)


def test_numbers_of_numpy_are_arguments_of_an_evaluation(trained):
    assert len(trained.evaluate(episodes=np.int64(2), seed=np.int32(1), parallel=np.int64(2)).scores) == 2


@pytest.mark.parametrize("steps", [float("inf"), float("nan"), "900", 1.5, True])
def test_a_wrong_length_of_a_resumed_run_is_one_line(trained, steps):
    with pytest.raises(ConfigError, match="must be a whole number"):
        trained.resume(env_steps=steps)


def test_the_agent_acts_on_arrays_and_tensors(trained):
    agent = trained.load_agent(greedy=True)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    actions = agent.act(obs)
    assert isinstance(actions, np.ndarray) and actions.shape == (5,) and set(actions) <= {0, 1}
    tensor = agent.act(torch.from_numpy(obs))
    assert isinstance(tensor, torch.Tensor) and tensor.tolist() == actions.tolist()
    assert agent.act(obs[2]) == actions[2]
    with pytest.raises(ValueError, match=r"shape \[3\]"):
        agent.act(obs[:, :3])
    assert (agent.act(obs.astype(np.float64)) == actions).all()
    assert agent.act(np.zeros(4, int)) == agent.act(np.zeros(4, np.float32))


def test_an_lstm_keeps_its_state(tmp_path):
    run = accel_rl.train("a2c", **SMALL, lstm=8, env_steps=64, run_dir=tmp_path / "run")
    agent = run.load_agent(greedy=True)
    obs = np.ones((2, 4), np.float32)
    agent.act(obs)
    before = agent._state.clone()
    agent.act(obs, first=[True, False])
    assert torch.equal(agent._state[0], before[0]) and not torch.equal(agent._state[1], before[1])
    agent.reset()
    agent.act(obs)
    assert torch.equal(agent._state, before)


def test_settings_by_names_of_the_command_line():
    config = settings(DQN.Config(batch_size=64), None, {"game": "pong", "env_steps": 1e6, "evaluation__interval": 500})
    assert config.algorithm == "dqn" and config.algo.batch_size == 64
    assert (config.env.game, config.env_steps, config.evaluation.interval) == ("pong", 1_000_000, 500)
    assert isinstance(config.env_steps, int)
    assert settings(DQN, None, {"game": "pong"}) == settings("dqn", None, {"game": "pong"})
    assert settings(config, None, {"seed": 3}).seed == 3
    on_cluster = settings("dqn", None, {"game": "pong", "cluster": "gorila"})
    assert on_cluster.algo.target_interval == 60_000


@pytest.mark.parametrize(
    ("what", "values", "words"),
    [
        ("ppo", {}, ["environment is missing", "game='pong'"]),
        ("pp0", {"game": "pong"}, ["pp0", "ppo"]),
        ("ppo", {"game": "pong", "env_stps": 5}, ["setting env_stps", "nearest: env_steps"]),
        ("ppo", {"game": "pong", "env_steps": 1.5}, ["env_steps=1.5", "a whole number"]),
        ("ppo", {"game": "pong", "envs": "many"}, ["envs='many'", "a whole number"]),
        ("ppo", {"game": "pong", "interval": 5}, ["ambiguous", "log__interval"]),
        (object(), {"game": "pong"}, ["is no algorithm"]),
        ("ppo", {"env": lambda: None}, ["the top of a module"]),
    ],
)
def test_bad_input_is_one_line(what, values, words):
    with pytest.raises(ConfigError) as e:
        accel_rl.train(what, **values)
    assert all(w in str(e.value) for w in words) and "\n" not in str(e.value)


SCRIPT = """
import accel_rl
from accel_rl import DQN

class Mine(DQN):
    Config = DQN.Config

run = accel_rl.train(
    Mine, env="CartPole-v1", envs=4, env_steps=400, run_dir="run", replay__start=100, replay__size=1000,
    evaluation__interval=0,
)
print(run.agent.act(__import__("numpy").zeros(4, "float32")))
print(len(accel_rl.Run.load("run").metrics["env_steps"]))
try:
    accel_rl.train(Mine, env="CartPole-v1", ranks=2, run_dir="two")
except accel_rl.ConfigError as e:
    print(e)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_program(module="script.py", cwd=tmp_path, timeout_s=200)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-3] in "01" and int(lines[-2]) > 0
    assert "Mine is defined in" in lines[-1] and "put it into a module" in lines[-1]
    assert not (Path(tmp_path) / "two").exists()


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, accel_rl; assert not {'torch', 'numpy', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    assert {"train", "Run", "make_sampler"} <= set(dir(accel_rl))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        accel_rl.trian  # noqa: B018


@pytest.mark.parametrize("call", [lambda: Run.load(3), lambda: accel_rl.train("ppo", env="CartPole-v1", run_dir=3)])
def test_a_folder_that_is_no_path_is_one_line(call):
    with pytest.raises(ConfigError, match=r"3.* must be the path of a folder"):
        call()
