"""The trained agents in the folder `suite`: names, the program that adds an agent, and scores on accel_rl's emulator
and ale-py."""

import pytest

import accel_rl
from accel_rl import Run
from accel_rl.api import suite_models
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.cli.main import main
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ended
from experiments import suite_agent as program

EPISODES = 2
"""Number of episodes that each agent plays on each backend."""
NAMES = suite_models.model_names()


@pytest.fixture(scope="module")
def pong(tmp_path_factory):
    """A run of Pong that ends after one rollout and an evaluation."""
    folder = tmp_path_factory.mktemp("pong") / "run"
    few = {"evaluation__episodes": 1, "evaluation__max_episode_steps": 100, "evaluation__parallel": 1}
    return accel_rl.train("a2c", game="pong", envs=2, engine="in-process", env_steps=10, **few, run_dir=folder)


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Use an empty folder instead of the folder of the suite's agents, and return it."""
    for module in (suite_models, program):
        monkeypatch.setattr(module, "SUITE", tmp_path)
    return tmp_path


def test_a_finished_run_is_added_and_evaluated_by_name(pong, models, capsys):
    assert program.add([str(pong.path)]) == 0
    assert suite_models.model_names() == ["a2c-pong"]
    assert Run.load("suite/a2c-pong").agent.obs_shape == pong.agent.obs_shape
    assert main(["evaluate", "suite/a2c-pong", "--episodes", "1", "--parallel", "1"]) == 0
    assert "a2c at 10 env steps: score" in capsys.readouterr().out
    assert main(["watch", "suite/a2c-pong", "--steps", "5", "--out", str(models / "short.gif")]) == 0
    card = (models / "a2c-pong/README.md").read_text()
    assert " of float16; " in card and "| name | stooke2018 |" in card and "deviation of 1 episode." in card
    capsys.readouterr()
    assert main(["evaluate", "suite/a2c-pogn"]) == 2
    line = capsys.readouterr().err.strip()
    assert line.endswith("the suite has no such agent; nearest: a2c-pong; allowed: suite/a2c-pong") and "\n" not in line


def test_where_there_is_no_checkout_one_line_says_where_the_agents_are(models, monkeypatch, capsys):
    monkeypatch.setattr(suite_models, "SUITE", models / "missing")
    assert main(["watch", "suite/ppo-breakout"]) == 2
    line = capsys.readouterr().err.strip()
    assert "experiments/models of the repository" in line and "\n" not in line


def test_a_folder_of_that_name_takes_precedence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite/x").mkdir(parents=True)
    assert str(suite_models.run_path("suite/x")) == "suite/x"


def test_an_unfinished_run_is_not_added(models, tmp_path, capsys):
    values = {"env": "CartPole-v1", "envs": 2, "engine": "in-process", "env_steps": 10, "evaluation__interval": 0}
    run = accel_rl.train("a2c", **values, run_dir=tmp_path / "pole")
    assert ended("models", program.add, [str(run.path)]) == 2
    assert "plays CartPole-v1" in capsys.readouterr().err
    assert ended("models", program.add, [str(run.path), "--x"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "limit"), [(name, limit) for limit in (150, None) for name in NAMES])
def test_an_agent_has_its_score_on_the_emulator_and_on_ale_py(name, limit, monkeypatch):
    """The scores of an agent on our emulator and on ale-py are equal. In the slow test, the mean score is within two
    standard deviations, or 10 %, of the mean score in the agent's model card."""
    recorded = ModelFolder(suite_models.SUITE / name).about()["evaluation"]
    mean = recorded["score_mean"]
    if limit:
        monkeypatch.setattr(TrainConfig, "evaluation_limit", limit)
    run = Run.load(f"suite/{name}")
    n = EPISODES if limit is None else 1
    ours, ale = (run.evaluate(n, parallel=n, backend=backend) for backend in ("emulator", "ale"))
    assert ours.scores == ale.scores
    if limit is None:
        margin = max(2 * recorded["score_std"], 0.1 * abs(mean))
        assert abs(ours.mean - mean) <= margin, (ours.scores, mean, margin)
    else:
        assert ours.mean > min(0.01 * mean, mean)  # Pong's scores may be negative.
