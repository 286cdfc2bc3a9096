"""Two equal runs are equal to the byte; a run killed at any moment and resumed equals one that was not."""

import json
import random
import signal
import time

import pytest

from tests.integration.runs import (
    assert_equal_runs,
    checkpoint_bytes,
    difference,
    kill,
    rows,
    run,
    run_until,
    start,
    wait_for,
)

SMALL = (
    *("--env-steps", 1600, "--seed", 1, "--checkpoint.interval", 400, "--log.interval", 200),
    *(
        "--evaluation.interval",
        800,
        "--evaluation.steps",
        200,
        "--evaluation.max-episode-steps",
        60,
        "--decorrelation-steps",
        20,
    ),
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
        *(
            "rainbow",
            "--game",
            "pong",
            "--env.max-episode-steps",
            90,
            "--network",
            "a3c",
            "--batch-size",
            8,
            "--envs",
            8,
        ),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--target-interval", 300, "--noisy"),
    ),
    "dqn": (
        *(
            "dqn",
            "--game",
            "breakout",
            "--env.max-episode-steps",
            90,
            "--network",
            "a3c",
            "--batch-size",
            8,
            "--envs",
            8,
        ),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--reset", "wait", "--epsilon-steps", 900),
        *("--secondary.batch", 16),
    ),
    "concurrent": (
        *("c51", "--game", "pong", "--env.max-episode-steps", 90, "--network", "a3c", "--batch-size", 8),
        *("--envs", 8),
        *("--replay.size", 600, "--replay.start", 200, "--intensity", 0.5, "--reset", "wait", "--epsilon-steps", 900),
        *("--schedule", "concurrent", "--target-interval", 160, "--horizon", 4, "--groups", 1, "--noisy"),
    ),
}


def of_games(*quick):
    """Parametrize a test by the game of `uninterrupted`; games that are not quick are slow."""
    games = [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in GAMES]
    return pytest.mark.parametrize("uninterrupted", games, indirect=True)


@pytest.fixture(scope="module")
def uninterrupted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    done = run("train", *GAMES[request.param], *SMALL, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return request.param, folder


@of_games()  # a run that was killed and resumed is equal, too: below
def test_a_second_run_is_equal(uninterrupted, tmp_path):
    name, first = uninterrupted
    done = run("train", *GAMES[name], *SMALL, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert_equal_runs(first, tmp_path / "run")
    assert len(rows(first)) >= 8 and rows(first)[-1]["eval_score"] != ""


@of_games("cartpole")
@pytest.mark.parametrize(
    "after_rows", [pytest.param(0, marks=pytest.mark.slow), 4, pytest.param(6, marks=pytest.mark.slow)]
)
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
    done = run("resume", folder)
    assert done.returncode == 0, done.stderr
    assert_equal_runs(first, folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "env_steps"), [("rainbow", 12_000), ("dqn", 36_000)])
def test_killed_twenty_times(tmp_path, name, env_steps):
    """Whenever it happens: between checkpoints, while one is written, while a killed run is being resumed."""
    longer = ("--env-steps", env_steps, "--checkpoint.interval", 200, "--evaluation.interval", 4_000)
    args = (*GAMES[name], *SMALL, *longer)
    done = run("train", *args, "--run-dir", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    folder, moments = tmp_path / "run", random.Random(0)
    for i in range(20):
        process = start(*(("resume", folder) if i else ("train", *args, "--run-dir", folder)))
        wait_for((folder / "config.json").exists)
        time.sleep(moments.uniform(1, 5) if i % 3 else moments.uniform(3, 7))
        if process.poll() is not None:
            break  # done before its time
        kill(process)
        process.wait()
    done = run("resume", folder)
    assert done.returncode == 0 or "is finished" in done.stderr, done.stderr
    assert i >= 12, f"killed {i} times only"
    assert_equal_runs(tmp_path / "whole", folder)
    assert {p.name: p.read_bytes() for p in (tmp_path / "whole" / "segments").iterdir()} == {
        p.name: p.read_bytes() for p in (folder / "segments").iterdir()
    }


@of_games()  # as test_two_ranks_stop_and_resume_bit_for_bit in test_ranks
def test_stopped_by_ctrl_c_and_resumed(uninterrupted, tmp_path):
    name, first = uninterrupted
    folder = tmp_path / "run"
    stopped = run_until(2, signal.SIGINT, "train", *GAMES[name], *SMALL, "--run-dir", folder)
    assert stopped.returncode == 130, stopped.stderr
    assert "stopped at" in stopped.stdout and "accel-rl resume" in stopped.stdout
    assert run("resume", folder).returncode == 0
    assert not (different := difference(first, folder)), "\n".join(different)
    assert checkpoint_bytes(first) == checkpoint_bytes(folder)


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
