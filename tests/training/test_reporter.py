"""The columns of metrics.csv that `Reporter` computes, such as scores, times and env steps/s."""

import csv
import math
import os
import signal
import subprocess
import time
from dataclasses import replace

import gymnasium
import pytest

import accel_rl
from accel_rl import Callback
from accel_rl.settings.train import default_config


def rows(path):
    with open(path / "metrics.csv", newline="") as f:
        return list(csv.DictReader(f))


def test_scores_and_cpu_time_of_a_resumed_run(tmp_path):
    """The scores of new episodes in all rows, weighted by the numbers of episodes, give the mean score of all episodes.

    A row's CPU time is the sum over all processes of the run, also after a resume.
    """
    config = default_config("ppo")
    config = replace(
        config,
        env=replace(config.env, id="CartPole-v1"),
        sampler=replace(config.sampler, engine="in-process", envs=4, horizon=32),
        evaluation=replace(config.evaluation, interval=0),
        log=replace(config.log, interval=128, window=1_000),
        env_steps=512,
    )
    run = accel_rl.train(config, run_dir=tmp_path / "run")
    times = [float(row["cpu_s"]) for row in rows(run.path)]
    run.resume(env_steps=1_024)
    table = rows(run.path)
    later = [float(row["cpu_s"]) for row in table]
    assert later[: len(times)] == times and later == sorted(later) and 0 < later[0] < later[-1]
    total, before = 0.0, 0
    for row in table:
        new = int(row["episodes"]) - before
        before = int(row["episodes"])
        assert bool(row["new_score"]) == bool(new)
        total += float(row["new_score"]) * new if new else 0.0
    assert len(table) > 4 and before > 20
    assert math.isclose(total / before, float(table[-1]["score"]), rel_tol=1e-5)


class Slow(gymnasium.Wrapper):
    """An environment whose step sleeps for 2 ms."""

    def step(self, action):
        time.sleep(0.002)
        return self.env.step(action)


def make_slow():
    return Slow(gymnasium.make("CartPole-v1"))


SLOW = {"env": "tests.training.test_reporter:make_slow", "envs": 4, "horizon": 5, "engine": "in-process"}
SLOW |= {"decorrelation_steps": 0, "evaluation__interval": 0, "checkpoint__interval": 0}


class Watch(Callback):
    """A callback that measures the wall time of training in seconds, and calls the function `acts[n]` at n env
    steps."""

    def __init__(self, acts):
        self.acts, self.seconds = acts, 0.0

    def on_start(self, training):
        self.began = time.monotonic()

    def on_update(self, training, metrics):
        if act := self.acts.pop(training.env_steps, None):
            act()

    def on_end(self, training):
        self.seconds += time.monotonic() - self.began


@pytest.mark.slow
@pytest.mark.parametrize("resumes", [1, 3])
def test_the_times_of_a_resumed_run_are_those_of_its_processes(tmp_path, resumes):
    """A run is stopped between two rows, and another process resumes it. Times and env steps/s in all rows must be
    correct."""
    stops = [100 + 200 * i for i in range(resumes)]
    watch = Watch({at: lambda: os.kill(os.getpid(), signal.SIGTERM) for at in stops})
    with pytest.raises(SystemExit):
        accel_rl.train("a2c", **SLOW, log__interval=200, env_steps=800, run_dir=tmp_path / "run", callbacks=[watch])
    run = accel_rl.Run(tmp_path / "run", trust=True)
    for _ in range(resumes - 1):
        with pytest.raises(SystemExit):
            run.resume(callbacks=[watch])
    run.resume(callbacks=[watch])
    table = rows(run.path)
    assert [int(row["env_steps"]) for row in table] == [200, 400, 600, 800]
    for name in ("wall_s", "cpu_s", "paused_s"):
        times = [float(row[name]) for row in table]
        assert times == sorted(times)
    assert float(table[-1]["wall_s"]) == pytest.approx(watch.seconds, rel=0.05)
    # The sum over rows of 200 env steps / (env steps/s) must be the measured time.
    seconds = sum(200 / float(row["steps_per_s"]) for row in table)
    assert seconds == pytest.approx(watch.seconds, rel=0.05)
    # 4 environments take at least 8 ms for a step each, so that rates are below 500 env steps/s.
    assert max(float(row["steps_per_s"]) for row in table) < 500


@pytest.mark.slow
def test_a_run_that_was_stopped_has_the_time_of_one_that_was_not(tmp_path):
    def stop():
        subprocess.Popen(f"sleep 3; kill -CONT {os.getpid()}", shell=True)
        os.kill(os.getpid(), signal.SIGSTOP)

    watch = Watch({100: stop})
    run = accel_rl.train("a2c", **SLOW, log__interval=200, env_steps=400, run_dir=tmp_path / "run", callbacks=[watch])
    first, last = rows(run.path)
    assert float(first["paused_s"]) == float(last["paused_s"]) == pytest.approx(3.0, abs=0.8)
    assert float(last["wall_s"]) + float(last["paused_s"]) == pytest.approx(watch.seconds, rel=0.05)
    assert 200 / float(first["steps_per_s"]) < watch.seconds - 2


@pytest.mark.slow
def test_the_rate_of_a_row_excludes_its_evaluation(tmp_path):
    values = {**SLOW, "evaluation__interval": 200, "evaluation__episodes": 15, "evaluation__parallel": 1}
    run = accel_rl.train("a2c", **values, log__interval=200, env_steps=400, run_dir=tmp_path / "run")
    table = rows(run.path)
    trained_s = sum(200 / float(row["steps_per_s"]) for row in table)
    # The 30 episodes of the evaluation have more than 200 steps, which take more than 0.4 s.
    assert trained_s < float(table[-1]["wall_s"]) - 0.4
