"""--budget 1h: parsing of times, planned env steps, and the short run that measures the speed."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from accel_rl.api import budget
from accel_rl.api.budget import Rates, Trial, env_steps_in, trial_of
from accel_rl.cli.main import main
from accel_rl.settings.train import default_config
from accel_rl.text.counts import parse_seconds
from accel_rl.text.errors import RunError
from tests.integration.runs import assert_equal_runs, run


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1h", 3600), ("1.5h", 5400), ("0.5s", 0.5)])
def test_a_time_has_a_unit(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1d", "-1h", "0s", "nans", "infh", "1 hour", "--seed"])
def test_another_text_is_no_time(text):
    with pytest.raises(ValueError, match=r"30s, 10m or 1\.5h"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--budget", "1h", "--env-steps", "5"], "--budget 1h and --env-steps 5: give one of the two"),
        (["--env-steps=5", "--budget=1h"], "--budget 1h and --env-steps 5: give one of the two"),
        (["--budget"], "--budget: the value is missing"),
        (["--budget", "1x"], "--budget: '1x' is no time above 0 such as 30s"),
    ],
)
def test_a_mistake_is_one_line(words, line, capsys):
    assert main(["train", "ppo", *words]) == 2
    assert line in (err := capsys.readouterr().err) and err.count("\n") == 1


@pytest.mark.parametrize(
    ("seconds", "rates", "random_steps", "env_steps"),
    [
        (3600, Rates(870.3), 0, 3_130_000),  # 3,133,080
        (10, Rates(51.25), 0, 512),
        (0.001, Rates(100.0), 0, 1),
        (100, Rates(200.0, 2_000.0), 50_000, 65_000),  # 100 s are 25 s of random play and 75 s of learning.
        (20, Rates(200.0, 2_000.0), 50_000, 40_000),  # All 20 s are random play, without learning.
        (100, Rates(200.0), 1_000, 21_000),  # unknown rate of random play: 1,000 env steps + 100 s of learning
    ],
)
def test_env_steps_of_a_time(seconds, rates, random_steps, env_steps):
    assert env_steps_in(seconds, rates, random_steps) == env_steps


def play(trial, cycles):
    """Simulate the training cycles (seconds, env steps, updates) of the run that measures the speed.

    Returns the number of training cycles until the simulated run ends.
    """
    now, updates, clock = 100.0, 0, SimpleNamespace(monotonic=lambda: now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "time", clock)
        for i, (seconds, env_steps, made) in enumerate(cycles):
            training = SimpleNamespace(updates=updates, config=SimpleNamespace(distributed=SimpleNamespace(size=2)))
            if not trial.on_rollout(training, SimpleNamespace(env_steps=env_steps // 2)):
                return i
            now, updates = now + seconds, updates + made
    raise AssertionError("the trial did not end")


def test_the_rates_before_and_after_the_first_update_are_measured_apart():
    trial = Trial(4.0)
    # Random play at 1,000 env steps/s, two slow updates that are not counted, and learning at 100 env steps/s.
    cycles = [(0.1, 100, 0)] * 10 + [(3.0, 100, 1), (3.0, 100, 1)] + [(1.0, 100, 1)] * 20
    assert play(trial, cycles) < 20
    assert trial.rates() == pytest.approx((100, 1_000))


def test_rollouts_of_one_period_count_together():
    """With concurrent training, all updates of a period of four rollouts are reported with the fourth rollout."""
    trial = Trial(4.0)
    play(trial, [(0.5, 80, 0)] * 4 + [(0.1, 80, 0), (0.1, 80, 0), (0.1, 80, 0), (1.7, 80, 9)] * 20)
    assert trial.rates().learning == pytest.approx(160)


def test_a_trial_without_updates_ends():
    trial = Trial(4.0)
    assert play(trial, [(1.0, 100, 0)] * 1_000) <= 121
    with pytest.raises(RunError, match="made no update in 120 s; give --env-steps"):
        trial.rates()


def test_the_trial_has_the_runs_settings_without_its_outputs():
    config = default_config("dqn")
    config = replace(config, callback=("SaveBest",), wandb="offline", seed=5)
    trial = trial_of(config)
    assert (trial.callback, trial.wandb, trial.evaluation.interval) == ((), "disabled", 0)
    assert trial.algo.replay.start == 2_000 < config.algo.replay.start
    assert (trial.seed, trial.sampler, trial.env) == (config.seed, config.sampler, config.env)
    assert replace(trial.algo, replay=config.algo.replay) == config.algo


@pytest.mark.slow
def test_a_run_with_a_budget_is_the_run_of_its_env_steps(tmp_path):
    options = (
        *("train", "ppo", "--env", "CartPole-v1", "--seed", 1, "--envs", 4, "--horizon", 16, "--minibatch", 32),
        *("--evaluation.episodes", 2, "--decorrelation-steps", 0, "--run-dir"),
    )
    done = run(*options, tmp_path / "budget", "--budget", "1s")
    assert done.returncode == 0, done.stderr
    env_steps = int(re.search(r"--budget 1s: ([\d,]+) env steps at [\d,]+ env", done.stdout)[1].replace(",", ""))
    assert json.loads((tmp_path / "budget/config.json").read_text())["env_steps"] == env_steps > 0
    assert run(*options, tmp_path / "steps", "--env-steps", env_steps).returncode == 0
    assert_equal_runs(tmp_path / "budget", tmp_path / "steps")
