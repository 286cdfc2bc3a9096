"""Two runs with the same settings write equal files. A run that was killed and resumed writes the files of an
uninterrupted run."""

import json
import signal
import time

import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from tests.integration.runs import assert_equal_runs, kill, rows, run, run_until, start, wait_for
from tests.marks import slow

SMALL = (
    *("--env-steps", 1600, "--seed", 1, "--checkpoint.interval", 400, "--log.interval", 200),
    *("--evaluation.interval", 800, "--evaluation.steps", 200, "--evaluation.max-episode-steps", 60),
    *("--decorrelation-steps", 20),
)
GAMES = {
    "breakout": ("a2c", "--game", "breakout", "--env.max-episode-steps", 90, "--reset", "wait", "--envs", 8),
    "pong": (
        *("a2c", "--game", "pong", "--env.max-episode-steps", 90, "--repeat-action-probability", 0.25, "--norms"),
        *("--reset", "cached"),
    ),
    "device": (
        *("a2c", "--game", "seaquest", "--env.max-episode-steps", 60, "--repeat-action-probability", 0.25),
        *("--envs", 8, "--engine", "device", "--device", "cpu"),
    ),
    "cartpole": ("a2c", "--env", "CartPole-v1", "--groups", 1, "--reset", "swap"),
    "rainbow": (  # the replay wraps twice
        *("rainbow", "--game", "pong", "--env.max-episode-steps", 90, "--network", "a3c", "--batch-size", 8),
        *("--envs", 8),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--target-interval", 300, "--noisy"),
    ),
    "dqn": (
        *("dqn", "--game", "breakout", "--env.max-episode-steps", 90, "--network", "a3c", "--batch-size", 8),
        *("--envs", 8),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--reset", "wait", "--epsilon-steps", 900),
        *("--secondary.batch", 16),
    ),
    "kl": (
        *("ppo", "--env", "CartPole-v1", "--horizon", 16, "--minibatch", 64, "--learning-rate-schedule", "kl"),
        *("--schedule-kl", 1e-3),
    ),
    "spectral norms": (
        *("dqn", "--game", "pong", "--env.max-episode-steps", 90, "--network", "tests.models.test_btr:Small"),
        *("--envs", 8, "--batch-size", 8, "--replay.size", 600, "--replay.start", 200, "--intensity", 0.5),
    ),
    "r2d2": (
        *("r2d2", "--game", "pong", "--env.max-episode-steps", 50, "--network", "a3c", "--batch-size", 2),
        *("--envs", 8, "--horizon", 4, "--length", 8, "--burn-in", 4, "--period", 8, "--lstm", 16),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--target-interval", 20, "--reset", "wait"),
    ),
    "concurrent": (
        *("c51", "--game", "pong", "--env.max-episode-steps", 90, "--network", "a3c", "--batch-size", 8),
        *("--envs", 8),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--reset", "wait", "--epsilon-steps", 900),
        *("--schedule", "concurrent", "--target-interval", 160, "--horizon", 4, "--groups", 1, "--noisy"),
    ),
}


def of_games(*quick):
    """Parametrize a test by the run in GAMES that the fixture `uninterrupted` makes. Runs that are not in `quick` are
    slow tests."""
    games = [n if n in quick else slow(n) for n in GAMES]
    return pytest.mark.parametrize("uninterrupted", games, indirect=True)


@pytest.fixture(scope="module")
def uninterrupted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    done = run("train", *GAMES[request.param], *SMALL, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return request.param, folder


@of_games("cartpole")
@pytest.mark.parametrize("after_rows", [slow(0), 4, slow(6)])
def test_killed_and_resumed(uninterrupted, tmp_path, after_rows):
    name, first = uninterrupted
    folder = tmp_path / "run"
    args = ("train", *GAMES[name], *SMALL, "--run-dir", folder)
    if after_rows:
        assert run_until(after_rows, signal.SIGKILL, *args).returncode == -signal.SIGKILL
    else:
        process = start(*args)
        wait_for((folder / "config.json").exists)
        kill(process)
        process.wait()
    done = run("resume", folder, "--trust")
    assert done.returncode == 0, done.stderr
    assert_equal_runs(first, folder)


@of_games("cartpole")
def test_killed_while_each_checkpoint_is_written(uninterrupted, tmp_path):
    """A run with four checkpoints is killed three times, while it writes its first, second and third checkpoint."""
    name, first = uninterrupted
    folder = tmp_path / "run"
    command = ("train", *GAMES[name], *SMALL, "--run-dir", folder)
    for _ in range(3):
        process = start(*command)
        deadline, writing = time.monotonic() + 60, set()
        while not writing and process.poll() is None and time.monotonic() < deadline:
            writing = {p.name for p in folder.glob("checkpoints/.writing-*") if "-old-" not in p.name}
        kill(process)
        process.wait()
        command = ("resume", folder, "--trust")
    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert "resumed at" in (folder / "events.log").read_text()
    assert_equal_runs(first, folder)


@pytest.mark.slow
def test_checkpoints_are_written_by_the_clock(tmp_path):
    folder = tmp_path / "run"
    options = ("--checkpoint.minutes", 0.005, "--checkpoint.keep", 100, "--evaluation.interval", 0, "--run-dir", folder)
    process = start("train", *GAMES["cartpole"], "--env-steps", 10_000_000, *options)
    checkpoints = Checkpoints(folder / "checkpoints")
    wait_for(lambda: len(checkpoints.steps()) > 2)
    kill(process)
    process.wait()
    last = checkpoints.steps()[-1]
    done = run("resume", folder, "--env-steps", last + 400)
    assert done.returncode == 0, done.stderr
    assert f"resumed at {last} env steps" in (folder / "events.log").read_text()
    assert checkpoints.steps()[-1] == last + 400


@pytest.mark.slow
def test_a_longer_run_goes_on_in_the_same_file(tmp_path):
    folder = tmp_path / "run"
    args = (*GAMES["cartpole"], *SMALL, "--engine", "in-process", "--run-dir", folder)
    assert run("train", *args).returncode == 0
    before = rows(folder)
    done = run("resume", folder)
    assert done.returncode == 2 and "is finished" in done.stderr and "--env-steps" in done.stderr
    assert run("resume", folder, "--env-steps", 2000).returncode == 0
    after = rows(folder)
    assert after[: len(before)] == before and int(after[-1]["env_steps"]) >= 2000
    steps = [int(r["env_steps"]) for r in after]
    assert steps == sorted(set(steps))
    assert json.loads((folder / "config.json").read_text())["env_steps"] == 2000
