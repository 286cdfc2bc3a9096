"""Warnings of a run about settings that do not have the effect that a user may expect."""

from dataclasses import replace

import pytest

from accel_rl.settings.advice import warning
from accel_rl.settings.presets import on_gorila
from accel_rl.settings.train import default_config
from tests.integration.runs import run


@pytest.mark.parametrize(("env_steps", "warns"), [(50_000, True), (50_001, False)])
def test_a_replay_that_never_starts_to_learn(env_steps, warns):
    config = replace(default_config("dqn"), env_steps=env_steps)
    assert bool(warning(config)) == warns
    cluster = on_gorila(config)
    assert "in each of 2 replays" in warning(cluster)
    assert not warning(replace(cluster, gorila=replace(cluster.gorila, updates=10)))
    assert not warning(replace(default_config("a2c"), env_steps=1))


def test_a_short_run_says_what_it_lacks(tmp_path):
    small = ("--env", "MountainCar-v0", "--envs", 4, "--engine", "in-process", "--evaluation.interval", 0)
    done = run("train", "dqn", *small, "--replay.size", 50_000, "--env-steps", 200, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "warning: this run makes no update: learning begins at --replay.start 50000" in done.stdout
    assert "no online score: no episode has ended in about 50 steps" in done.stdout
    assert "makes no update" in (tmp_path / "run" / "events.log").read_text()
