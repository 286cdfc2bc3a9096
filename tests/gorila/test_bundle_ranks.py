"""Bundles whose ranks share central parameters (--update async): whole runs on real Ray, with real kills."""

import importlib.util

import psutil
import pytest

from tests.gorila.random_kills import TITLES, titled
from tests.gorila.test_gorila import CATCH, events, interrupted_and_resumed, start, wait_until
from tests.integration.runs import rows, run

__all__ = ["start"]  # a fixture
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`"),
]
RANKS = ("--cluster", "gorila", "--bundles", 2, "--shards", 2, "--update", "async", "--ranks", 2)
CATCH_ACTOR_CRITIC = (
    *("--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--envs", 8, "--seed", 1),
    *("--evaluation.episodes", 50, *RANKS),
)


@pytest.mark.parametrize(
    ("algorithm", "settings", "env_steps"),
    [
        ("a2c", (*CATCH_ACTOR_CRITIC, "--learning-rate", 1e-3), 60_000),
        ("ppo", (*CATCH_ACTOR_CRITIC, "--learning-rate", 1e-3, "--distributed.local-updates", 2), 60_000),
        ("dqn", (*CATCH, *RANKS), 30_000),
    ],
)
def test_bundles_of_two_ranks_learn_catch(tmp_path, algorithm, settings, env_steps):
    folder = tmp_path / "run"
    done = run("train", algorithm, *settings, "--env-steps", env_steps, "--run-dir", folder, timeout_s=800)
    assert done.returncode == 0, done.stderr
    last = rows(folder)[-1]
    assert float(last["score"]) > 0.7 and float(last["eval_score"]) > 0.7
    assert (last["ranks_replaced"], last["bundles_replaced"], last["pushes_refused"]) == ("0", "0", "0")
    assert int(last["pushes_accepted"]) <= 2 * int(last["updates"]), "a push can contain several updates"


def ranks_of(driver):
    children = psutil.Process(driver).children(recursive=True)
    return [p for p in children if "accel_rl.ranks.rank" in p.cmdline()]


def test_killed_ranks_and_bundles_are_replaced(start, tmp_path):
    folder = tmp_path / "run"
    more = ("--learning-rate", 1e-3, "--env-steps", 60_000, "--run-dir", folder)
    train = start("train", "a2c", *CATCH_ACTOR_CRITIC, *more)
    wait_until(lambda: (folder / "metrics.csv").exists() and len(rows(folder)) > 5)
    ranks = ranks_of(train.pid)
    assert len(ranks) == 4
    ranks[0].kill()
    wait_until(lambda: rows(folder)[-1]["ranks_replaced"] == "1")
    bundle = titled(TITLES["member"], train.pid)[0]
    its = bundle.children(recursive=True)
    bundle.kill()
    _, alive = psutil.wait_procs(its, timeout=10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    wait_until(lambda: "its process died" in events(folder), 30)
    _, err = train.communicate(timeout=600)
    assert train.returncode == 0, err
    last = rows(folder)[-1]
    assert int(last["bundles_replaced"]) == 1 and int(last["env_steps"]) >= 60_000 and float(last["eval_score"]) > 0.7
    steps = [int(r["env_steps"]) for r in rows(folder)]
    assert steps == sorted(steps)


def test_ctrl_c_saves_and_the_run_is_resumed(start, tmp_path):
    args = ("train", "a2c", *CATCH_ACTOR_CRITIC, "--env-steps", 60_000)
    _, after = interrupted_and_resumed(start, tmp_path / "run", *args, env_steps=8_000)
    # 8 environments x 5 steps an update, of all ranks together
    assert abs(int(after[-1]["env_steps"]) / 40 - int(after[-1]["updates"])) < 20
