"""Agents learn. Minutes each: run with -m slow. Without it tests/golden compares short curves bit for bit."""

import pytest

from tests.integration.runs import rows, run


@pytest.mark.slow
def test_cartpole_improves(tmp_path):
    """A fifth of the full run: far above a random player's 22."""
    done = run("train", "experiments.cpu:cartpole_ppo", "--env-steps", 20_480, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 60


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["a2c", "impala", "ppo", "pqn"])
def test_cartpole_is_solved(tmp_path, algorithm, seed):
    """The mean of the last 100 training episodes, at the end of the run."""
    name = f"experiments.cpu:cartpole_{algorithm}"
    done = run("train", name, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 475


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(("algorithm", "score"), [("a2c", 0), ("ppo", 10), ("rainbow", 0)])
def test_pong_is_won(tmp_path, algorithm, score):
    """A2C above 0 within 4 M env steps, PPO above 10 within 2 M, Rainbow above 0 within 1 M, from about -20."""
    name = f"experiments.cpu:pong_{algorithm}"
    done = run("train", name, "--run-dir", tmp_path / "run", timeout_s=4 * 3600)
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "run")
    assert float(next(r["score"] for r in table if r["score"])) < -19
    assert float(table[-1]["eval_score"]) > score


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.slow
def test_pqn_solves_catch(tmp_path, seed):
    """The mean score of 100 greedy games at the end of the run."""
    done = run(
        *("train", "pqn", "--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--envs", 16),
        *("--horizon", 16, "--env-steps", 30_000, "--seed", seed, "--evaluation.episodes", 100),
        *("--evaluation.interval", 30_000, "--checkpoint.interval", 0, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["eval_score"]) > 0.9


CATCH = (
    *("--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c", "--envs", 8),
    *("--replay.size", 20_000, "--replay.start", 1_000, "--epsilon-steps", 5_000, "--epsilon-final", 0.02),
    *("--target-interval", 250, "--learning-rate", 5e-4, "--optimizer", "adam", "--optimizer-eps", 1e-3, "--seed", 1),
    *("--checkpoint.interval", 0, "--evaluation.episodes", 100, "--evaluation.interval", 0),
)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "c51", "rainbow"])
def test_catch_is_solved(tmp_path, algorithm):
    """The online score of the last 100 games, 1 of 1 but for what exploration drops."""
    steps, intensity = {"rainbow": (12_000, 4), "dqn": (12_000, 8)}.get(algorithm, (20_000, 8))
    more = ("--env-steps", steps, "--intensity", intensity, "--run-dir", tmp_path / "run")
    done = run("train", algorithm, *CATCH, *more)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 0.8


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["dqn", "c51", "rainbow"])
def test_cartpole_is_solved_by_values(tmp_path, algorithm, seed):
    """In the evaluation at the end, without exploration."""
    name = f"experiments.cpu:cartpole_{algorithm}"
    done = run("train", name, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["eval_score"]) > 475


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


@pytest.mark.slow
@pytest.mark.parametrize(("lstm", "solved"), [(32, True), (0, False)])
def test_a_memory_task_needs_the_memory(tmp_path, lstm, solved):
    """The cue is shown 9 steps before the answer: score 1 with an LSTM, 0.25 by chance without."""
    done = run(
        *("train", "ppo", *RECALL, "--lstm", lstm, "--envs", 16, "--horizon", 20, "--minibatch", 80, "--seed", 1),
        *("--learning-rate", 3e-3, "--env-steps", 40_000 if solved else 15_000, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    score = float(rows(tmp_path / "run")[-1]["score"])
    assert score > 0.85 if solved else score < 0.45


CATCH_ON_POLICY = {
    "a2c": ("--envs", 16, "--learning-rate", 1e-3, "--env-steps", 60_000),
    "ppo": ("--envs", 8, "--horizon", 32, "--minibatch", 64, "--env-steps", 30_000),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("update", ["all-reduce", "async"])
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_ranks_solve_catch(tmp_path, algorithm, update):
    """The online score of the last 100 games of each rank, 1 of 1 but for what exploration drops."""
    settings = (*CATCH, "--env-steps", 20_000, "--intensity", 8)
    if algorithm in CATCH_ON_POLICY:
        settings = (
            *("--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c"),
            *("--seed", 1, "--evaluation.interval", 0, *CATCH_ON_POLICY[algorithm]),
        )
    more = ("--ranks", 2, "--update", update, "--run-dir", tmp_path / "run")
    done = run("train", algorithm, *settings, *more, timeout_s=1700)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 0.8


PULLED = {
    "catch": (
        *("a2c", "--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c"),
        *("--envs", 16, "--learning-rate", 1e-3, "--env-steps", 150_000),
    ),
    "cartpole": ("experiments.cpu:cartpole_a2c", "--learning-rate", 3e-3, "--env-steps", 300_000),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("task", "score"), [("catch", 0.9), ("cartpole", 450)])
def test_a2c_learns_from_rollouts_that_pulls_interrupt(tmp_path, task, score, ranks):
    """Asynchronous ranks pull seven times in each rollout of 128 steps; what a pull replaced must not be learned
    from."""
    group = ("--ranks", ranks, *(("--update", "async", "--distributed.pull-steps", 16) if ranks > 1 else ()))
    more = ("--horizon", 128, "--evaluation.interval", 0, "--seed", 1, "--run-dir", tmp_path / "run")
    done = run("train", *PULLED[task], *group, *more, timeout_s=1700)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > score


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("update", ["all-reduce", "async"])
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_ranks_balance_the_pole(tmp_path, algorithm, update):
    """In the evaluation at the end: above 350 of 500 steps, where a random player has 22."""
    more = ("--ranks", 2, "--update", update, "--run-dir", tmp_path / "run")
    done = run("train", f"experiments.cpu:cartpole_{algorithm}", *more, timeout_s=3500)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["eval_score"]) > 350
