"""Each algorithm learns Catch in seconds, and other tasks in minutes (slow tests)."""

import pytest

from tests.integration.runs import rows, run


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["a2c", "impala", "ppo", "pqn"])
def test_cartpole_is_solved(tmp_path, algorithm, seed):
    """The policy-gradient algorithms solve CartPole: the mean score of the last 100 training episodes exceeds 475."""
    name = f"experiments.cpu:cartpole_{algorithm}"
    done = run("train", name, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > 475


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(("algorithm", "score"), [("a2c", 0), ("ppo", 10), ("rainbow", 0)])
def test_pong_is_won(tmp_path, algorithm, score):
    """The score in Pong rises from about -20 to above 0 with A2C in 4 M env steps, above 10 with PPO in 2 M, and above
    0 with Rainbow in 1 M."""
    name = f"experiments.cpu:pong_{algorithm}"
    done = run("train", name, "--run-dir", tmp_path / "run", timeout_s=4 * 3600)
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "run")
    assert float(next(r["score"] for r in table if r["score"])) < -19
    assert float(table[-1]["eval_score"]) > score


CATCH = (
    *("--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c"),
    *("--checkpoint.interval", 0, "--evaluation.interval", 0),
)
Q = (
    *("--envs", 8, "--horizon", 4, "--intensity", 4, "--replay.size", 20_000, "--replay.start", 500, "--n-step", 3),
    *("--target-interval", 128, "--epsilon-steps", 1_500, "--epsilon-final", 0.02),
    *("--learning-rate", 2e-3, "--optimizer", "adam", "--optimizer-eps", 1e-3),
)
SEQUENCES = (
    *("--envs", 8, "--horizon", 4, "--intensity", 4, "--replay.size", 20_000, "--replay.start", 500, "--n-step", 3),
    *("--length", 8, "--burn-in", 4, "--period", 4, "--batch-size", 8, "--lstm", 32, "--hidden", 64),
    *("--target-interval", 100, "--learning-rate", 2e-3, "--epsilon-spread", 3),
)
CATEGORICAL = (*Q, "--atoms", 21, "--v-min", -2, "--v-max", 2)
ON_CATCH = {  # Maps each algorithm to (env steps, minimum score, settings).
    "a2c": (20_000, 0.7, ("--envs", 16, "--learning-rate", 1e-3)),
    "ppo": (12_000, 0.7, ("--envs", 8, "--horizon", 32, "--minibatch", 64)),
    "pqn": (16_000, 0.1, ("--envs", 16, "--horizon", 16, "--minibatch", 64, "--exploration", 0.3)),
    "impala": (45_000, 0.3, ("--envs", 32, "--horizon", 5, "--batches", 2, "--learning-rate", 2e-3)),
    "dqn": (6_000, 0.6, Q),
    "c51": (6_000, 0.5, CATEGORICAL),
    "qrdqn": (6_000, 0.5, (*Q, "--quantiles", 21, "--learning-rate", 1e-3)),
    "iqn": (
        10_000,
        0.6,
        (*Q, "--quantiles", 8, "--target-quantiles", 8, "--value-quantiles", 8, "--learning-rate", 3e-3),
    ),
    "rainbow": (4_500, 0.3, CATEGORICAL),
    "r2d2": (8_000, 0.2, SEQUENCES),
}
"""Over 20 seeds, the lowest score was 0.92 with A2C, 0.88 with PPO, 0.40 with PQN, 0.58 with IMPALA, 0.84 with DQN,
0.74 with C51, and 0.56 with Rainbow. The median score was at least 0.91 with each of them. Random play scores -0.6."""


def score_on_catch(run_dir, algorithm, seed, env_steps=None, more=()):
    """Return the mean score of the last 100 training games. Without exploration, a perfect player scores 1."""
    steps, _, settings = ON_CATCH[algorithm]
    flags = (*CATCH, *settings, "--env-steps", env_steps or steps, "--seed", seed, "--run-dir", run_dir, *more)
    done = run("train", algorithm, *flags, timeout_s=1700)
    assert done.returncode == 0, done.stderr
    return float(rows(run_dir)[-1]["score"])


@pytest.mark.slow  # The fast tests compare all algorithms with golden curves.
@pytest.mark.parametrize("algorithm", ON_CATCH)
def test_catch_is_learned(tmp_path, algorithm):
    """Each algorithm learns Catch. The score is that of training games, which shows whether exploration ends."""
    assert score_on_catch(tmp_path / "run", algorithm, seed=1) > ON_CATCH[algorithm][1]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["dqn", "c51", "rainbow"])
def test_cartpole_is_solved_by_values(tmp_path, algorithm, seed):
    """The Q-learning algorithms solve CartPole: the score of the final evaluation exceeds 475."""
    name = f"experiments.cpu:cartpole_{algorithm}"
    done = run("train", name, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["eval_score"]) > 475


RECALL = (
    *("--env", "experiments.recall:make", "--engine", "in-process", "--torch-threads", 1, "--evaluation.interval", 0),
)


@pytest.mark.slow
@pytest.mark.parametrize(("lstm", "solved"), [(32, True), (0, False)])
def test_a_memory_task_needs_the_memory(tmp_path, lstm, solved):
    """In the memory task, the cue is observed 9 steps before the answer. An agent with an LSTM scores 1.

    An agent without memory scores 0.25 by chance.
    """
    done = run(
        *("train", "ppo", *RECALL, "--lstm", lstm, "--envs", 16, "--horizon", 20, "--minibatch", 80, "--seed", 1),
        *("--learning-rate", 3e-3, "--env-steps", 40_000 if solved else 15_000, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    score = float(rows(tmp_path / "run")[-1]["score"])
    assert score > 0.85 if solved else score < 0.45


OF_VALUES = (
    *("--engine", "in-process", "--torch-threads", 1, "--replay.start", 1_000, "--replay.size", 20_000),
    *("--intensity", 8, "--env-steps", 40_000, "--evaluation.interval", 40_000),
)
OF_SEQUENCES = (
    *("r2d2", "--env", "experiments.recall:make", "--lstm", 32, "--hidden", 64, "--length", 12, "--burn-in", 4),
    *("--period", 4, "--batch-size", 32, "--learning-rate", 2e-3, "--target-interval", 50, "--epsilon-spread", 3),
)
OF_STACKS = (
    *("dqn", "--env", "experiments.recall:make_stacked", "--double", "--dueling", "--n-step", 5),
    *("--optimizer", "adam", "--optimizer-eps", 1e-3, "--learning-rate", 1e-3, "--target-interval", 500),
    *("--epsilon-final", 0.05, "--epsilon-evaluation", 0.001),
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("flags", [OF_SEQUENCES, OF_STACKS], ids=["r2d2", "dqn, stack of four"])
def test_sequences_recall_what_a_stack_of_four_does_not_show(tmp_path, flags, seed):
    done = run("train", *flags, *OF_VALUES, "--seed", seed, "--run-dir", tmp_path / "run", timeout_s=1100)
    assert done.returncode == 0, done.stderr
    score = float(rows(tmp_path / "run")[-1]["eval_score"])
    assert score > 0.9 if flags is OF_SEQUENCES else score < 0.45


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("update", ["all-reduce", "async"])
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_ranks_learn_catch(tmp_path, algorithm, update):
    """Two ranks learn Catch: the mean score of the last 100 training games of each rank exceeds 0.8."""
    more = ("--ranks", 2, "--update", update)
    steps = 3 * ON_CATCH[algorithm][0]
    assert score_on_catch(tmp_path / "run", algorithm, seed=1, env_steps=steps, more=more) > 0.8


PULLED = {
    "catch": ("a2c", *CATCH, *ON_CATCH["a2c"][2], "--env-steps", 150_000),
    "cartpole": (
        *("experiments.cpu:cartpole_a2c", "--learning-rate", 3e-3, "--env-steps", 300_000),
        *("--evaluation.interval", 0),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("task", "score"), [("catch", 0.9), ("cartpole", 450)])
def test_a2c_learns_from_rollouts_that_pulls_interrupt(tmp_path, task, score, ranks):
    """A2C learns although asynchronous ranks pull new parameters seven times in each rollout of 128 steps."""
    group = ("--ranks", ranks, *(("--update", "async", "--distributed.pull-steps", 16) if ranks > 1 else ()))
    more = ("--horizon", 128, "--seed", 1, "--run-dir", tmp_path / "run")
    done = run("train", *PULLED[task], *group, *more, timeout_s=1700)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["score"]) > score


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("update", ["all-reduce", "async"])
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_ranks_balance_the_pole(tmp_path, algorithm, update):
    """Two ranks learn CartPole: final evaluation episodes last more than 350 of 500 steps, and those of a random player
    22 steps."""
    more = ("--ranks", 2, "--update", update, "--run-dir", tmp_path / "run")
    done = run("train", f"experiments.cpu:cartpole_{algorithm}", *more, timeout_s=3500)
    assert done.returncode == 0, done.stderr
    assert float(rows(tmp_path / "run")[-1]["eval_score"]) > 350
