"""Agents learn. Minutes each: run with -m slow (but for the short one)."""

import pytest

from tests.integration.runs import rows, run

CARTPOLE = (
    *("train", "a2c", "--env", "CartPole-v1", "--envs", 8, "--horizon", 16, "--rule", "adam", "--learning-rate", 1e-3),
    *("--learning-rate-scaling", "none", "--gae-lambda", 0.95, "--engine", "in-process", "--torch-threads", 1),
    *("--evaluation.interval", 0),
)


def test_cartpole_improves(tmp_path):
    """40,000 steps: far from solved, far above the random player's 22."""
    done = run(*CARTPOLE, "--env-steps", 40_000, "--seed", 1, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 60


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_solved(tmp_path, seed):
    done = run(*CARTPOLE, "--env-steps", 400_000, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    assert max(float(r["score"]) for r in rows(tmp_path / "run") if r["score"]) > 450


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_pong_is_won_within_4_million_steps(tmp_path):
    done = run("train", "a2c", "--game", "pong", "--env-steps", 4e6, "--seed", 1, "--run-dir", tmp_path / "run",
               "--evaluation.steps", 20_000, timeout_s=4 * 3600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    scores = [float(r["score"]) for r in rows(tmp_path / "run") if r["score"]]
    assert scores[0] < -19 and scores[-1] > 0


RECALL = (
    "--env",
    "experiments.recall:make",
    "--engine",
    "in-process",
    "--torch-threads",
    1,
    "--evaluation.interval",
    0,
)


@pytest.mark.parametrize(("lstm", "solved"), [(32, True), (0, False)])
def test_a_memory_task_needs_the_memory(tmp_path, lstm, solved):
    """The cue was shown 9 steps before the answer: 1 with an LSTM, by chance 0.25 without."""
    done = run(
        *("train", "ppo", *RECALL, "--lstm", lstm, "--envs", 16, "--horizon", 20, "--minibatch", 160, "--seed", 1),
        *("--env-steps", 60_000 if solved else 20_000, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    score = float(rows(tmp_path / "run")[-1]["score"])
    assert score > 0.95 if solved else score < 0.45
