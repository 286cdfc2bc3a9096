"""The concurrent schedule and the second learner on several ranks, started by the command line."""

import re
import signal

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from tests.integration.runs import assert_equal_runs, checkpoint_bytes, kill, progressed, rows, run, start, wait_for

PERIOD, BATCH, INTENSITY, START = 160, 16, 2, 320
ARGS = (
    *("train", "dqn", "--env", "CartPole-v1", "--engine", "in-process", "--torch-threads", 1, "--envs", 8, "--seed", 3),
    *("--schedule", "concurrent", "--horizon", 4, "--target-interval", PERIOD, "--batch-size", BATCH),
    *("--network", "a3c"),
    *("--intensity", INTENSITY, "--replay.size", 1_000, "--replay.start", START, "--epsilon-steps", 900),
    *("--log.interval", PERIOD, "--evaluation.interval", 0, "--checkpoint.interval", 2 * PERIOD),
)
TWO = ("--ranks", 2, "--secondary.batch", 32)
EVALUATED = ("--evaluation.interval", 800, "--evaluation.steps", 200, "--evaluation.max-episode-steps", 60)
ENV_STEPS = 1_600 + 96  # a shorter last period


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished run of two ranks with a second learner and evaluations."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = run(*ARGS, *TWO, *EVALUATED, "--env-steps", ENV_STEPS, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def learned(folder, learner):
    found = Checkpoints(folder / "checkpoints")
    network = load(found.path(found.steps()[-1]))[learner]["network"]
    return torch.cat([x.flatten() for x in network.values()])


@pytest.mark.slow
def test_ranks_train_as_often_as_the_intensity_says_and_stay_equal(whole, tmp_path):
    assert run(*ARGS, "--env-steps", ENV_STEPS, "--run-dir", tmp_path / "one").returncode == 0
    one, two = rows(tmp_path / "one"), rows(whole)
    for name in ("env_steps", "updates", "learning_rate"):
        assert [r[name] for r in one] == [r[name] for r in two]
    assert int(two[-1]["env_steps"]) == ENV_STEPS
    assert int(two[-1]["updates"]) == (ENV_STEPS - START) * INTENSITY // BATCH
    for learner in ("learner", "secondary"):
        assert torch.equal(learned(whole, learner), learned(whole / "ranks/1", learner))
    assert not torch.equal(learned(whole, "learner"), learned(whole, "secondary"))
    assert float(two[-1]["secondary/eval_score"]) > 0 and checkpoint_bytes(whole) != checkpoint_bytes(whole / "ranks/1")


@pytest.mark.slow  # as test_two_ranks_stop_and_resume_bit_for_bit in test_ranks
def test_ranks_stop_at_the_end_of_a_period_and_resume_bit_for_bit(whole, tmp_path):
    folder = tmp_path / "run"
    process = start(*ARGS, *TWO, *EVALUATED, "--env-steps", ENV_STEPS, "--run-dir", folder)
    wait_for(lambda: progressed(folder, 4))
    kill(process, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    stopped = int(re.search(r"stopped at ([\d,]+) env steps", out)[1].replace(",", ""))
    assert stopped % PERIOD == 0 and stopped < ENV_STEPS
    assert run("resume", folder).returncode == 0
    assert_equal_runs(whole, folder)
    assert checkpoint_bytes(whole / "ranks/1") == checkpoint_bytes(folder / "ranks/1")


@pytest.mark.slow
def test_asynchronous_ranks_train_concurrently(tmp_path):
    """Asynchronous ranks with the concurrent schedule make as many updates in total as the intensity demands."""
    done = run(*ARGS, "--ranks", 2, "--update", "async", "--env-steps", 1_600, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    last = rows(tmp_path / "run")[-1]
    steps, updates = int(last["env_steps"]), int(last["updates"])
    assert 1_600 <= steps < 1_600 + 2 * PERIOD and steps % PERIOD == 0
    assert updates == pytest.approx((steps - START) * INTENSITY / BATCH, abs=2 * PERIOD * INTENSITY / BATCH)
