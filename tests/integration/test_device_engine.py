"""Only a run with --env.randomness counter may change to the device engine when it is resumed."""

import pytest

from tests.integration.runs import run

pytest.importorskip("accel_rl.emulator._core")

SMALL = (
    *("a2c", "--game", "breakout", "--env-steps", 80, "--envs", 8, "--decorrelation-steps", 0, "--device", "cpu"),
    *("--engine", "in-process", "--evaluation.interval", 0),
)


def test_only_counter_randomness_changes_to_a_device(tmp_path):
    done = run("train", *SMALL, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = run("resume", tmp_path / "run", "--env-steps", 160, "--engine", "device")
    assert done.returncode == 2 and "needs counter" in done.stderr and len(done.stderr.splitlines()) == 1
