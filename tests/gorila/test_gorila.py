"""Whole runs of --cluster gorila on a real Ray cluster, in which processes are killed."""

import importlib.util
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from tests.gorila.local_cluster import local_cluster
from tests.gorila.random_kills import TITLES, catch, titled
from tests.gorila.random_kills import run as run_with_kills
from tests.integration.runs import rows, run
from tests.integration.runs import start as start_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`"),
]

ROOT = Path(__file__).parents[3]
CATCH = (
    *("--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c", "--envs", 8),
    *("--replay.size", 20_000, "--replay.start", 1_000, "--epsilon-steps", 1_250, "--epsilon-final", 0.02),
    *("--target-interval", 60, "--learning-rate", 5e-4, "--optimizer", "adam", "--optimizer-eps", 1e-3, "--seed", 1),
    *("--evaluation.episodes", 50, "--evaluation.interval", 5_000),
)
GORILA = ("train", "dqn", *CATCH, "--cluster", "gorila", "--bundles", 2, "--shards", 2, "--snapshot-updates", 200)


def events(folder):
    file = folder / "events.log"
    return file.read_text() if file.exists() else ""


def wait_until(true, timeout_s=240.0):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def score(folder):
    return float(rows(folder)[-1]["score"])


def test_a_callback_ends_the_run(tmp_path):
    folder = tmp_path / "run"
    callback = "tests.gorila.made_up:EndAt(env_steps=3_000)"
    options = ("--env-steps", 200_000, "--checkpoint.interval", 1_000, "--callback", callback)
    done = run(*GORILA, *options, "--run-dir", folder, timeout_s=600)
    assert done.returncode == 0, done.stderr
    assert "callback EndAt.on_checkpoint ends the run" in events(folder) and "stopped at" in done.stdout
    assert float(rows(folder)[-1]["checkpoints"]) >= 1 and "started at 0" in events(folder)


def test_two_bundles_learn_catch(tmp_path):
    done = run(*GORILA, "--env-steps", 20_000, "--run-dir", tmp_path / "run", timeout_s=600)
    assert done.returncode == 0, done.stderr
    last = rows(tmp_path / "run")[-1]
    assert float(last["score"]) > 0.8 and int(last["bundles_replaced"]) == 0
    # An update is one push to each of the two shards.
    updates, accepted = int(last["updates"]), int(last["pushes_accepted"])
    assert 2 * updates - 8 <= accepted <= 2 * updates + 8
    members = [rows(tmp_path / "run" / "members" / str(i))[-1] for i in range(2)]
    made, outliers = sum(int(m["updates"]) for m in members), int(last["gradients_outlier"])
    assert abs(made - outliers - updates) <= 8 + int(last["pushes_stale"])
    done = run("evaluate", tmp_path / "run", "--trust", "--episodes", 50)
    assert done.returncode == 0 and float(done.stdout.split("score ")[1].split()[0]) > 0.7, done.stdout
    assert run("evaluate", tmp_path / "run", "--trust", "--episodes", 50, "--best").returncode == 0
    done = run("plot", tmp_path / "run")
    assert done.returncode == 0 and "(0)" not in done.stdout, "members are not runs of their own"


@pytest.mark.parametrize("members", [(1, 0, 0), (0, 1, 1), (1, 1, 1)])
def test_a_global_replay_learns_catch(tmp_path, members):
    bundles, actors, learners = members
    more = ("--bundles", bundles, "--actors", actors, "--learners", learners, "--gorila.replay", "global")
    length = ("--gorila.updates", 5_000)
    done = run(*GORILA, *more, *length, "--run-dir", tmp_path / "run", timeout_s=800)
    assert done.returncode == 0, done.stderr
    last = rows(tmp_path / "run")[-1]
    assert float(last["eval_score"]) > 0.7 and int(last["updates"]) >= 5_000
    if learners and not bundles:
        assert int(rows(tmp_path / "run" / "members" / "1")[-1]["episodes"]) == 0, "a learner does not sample"
        assert int(rows(tmp_path / "run" / "members" / "0")[-1]["updates"]) == 0, "an actor does not learn"


OWN = """
from dataclasses import dataclass

from accel_rl.algos.dqn import DQN, DQNConfig


@dataclass(frozen=True)
class OwnConfig(DQNConfig):
    slowness: float = 2.0


class Own(DQN):
    Config = OwnConfig

    @property
    def learning_rate(self):
        return super().learning_rate / self.config.slowness
"""


@pytest.mark.parametrize("algorithm", ["c51", "rainbow", "a2c", "ppo", "own:Own"])
def test_other_algorithms_run(tmp_path, algorithm):
    (tmp_path / "own.py").write_text(OWN)
    replay = () if algorithm in ("a2c", "ppo") else ("--replay.size", 20_000, "--replay.start", 500)
    more = ("--env", "CartPole-v1", "--cluster", "gorila", "--shards", 3, "--evaluation.interval", 0, *replay)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    length = ("--env-steps", 4_000, "--run-dir", "run")
    done = run("train", algorithm, *more, *length, timeout_s=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(rows(tmp_path / "run")[-1]["updates"]) > 10


@pytest.fixture
def start(tmp_path):
    def start(*argv):
        started.append(start_run(*argv))
        return started[-1]

    started = []
    yield start
    for p in started:
        if p.poll() is None:
            p.kill()
            p.communicate()


def test_sigterm_saves_in_time_although_a_member_is_stopped(start, tmp_path):
    """After SIGTERM, a run saves within the 30 seconds that batch systems allow, even if one member is suspended."""
    folder = tmp_path / "run"
    train = start(*GORILA, "--env-steps", "1e6", "--checkpoint.interval", 0, "--run-dir", folder)
    wait_until(lambda: (folder / "metrics.csv").exists() and len(rows(folder)) > 3)
    stopped = titled(TITLES["member"], train.pid)[0]
    stopped.suspend()
    train.send_signal(signal.SIGTERM)
    wait_until(lambda: Checkpoints(folder / "checkpoints").steps(), 30)
    stopped.resume()
    out, err = train.communicate(timeout=200)
    assert train.returncode == 143 and "stopped at" in out, err


def test_a_killed_ray_agent_ends_the_run_in_one_line(start, tmp_path):
    folder = tmp_path / "run"
    more = ("--checkpoint.interval", 500)
    train = start(*GORILA, "--env-steps", "1e6", *more, "--run-dir", folder)
    wait_until(lambda: Checkpoints(folder / "checkpoints").steps(), 400)
    family = psutil.Process(train.pid).children(recursive=True)
    next(p for p in family if p.name() == "raylet").kill()
    _, err = train.communicate(timeout=300)
    assert train.returncode == 1 and "Traceback" not in err, err
    assert [line for line in err.splitlines() if line.startswith("accel-rl: ")] == err.strip().splitlines()[-1:], err
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    saved = Checkpoints(folder / "checkpoints").steps()[-1]
    done = run("resume", folder, "--trust", "--env-steps", saved + 1_000, timeout_s=400)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_saves_and_members_continue_from_later_checkpoints_under_the_drivers_number(start, tmp_path):
    folder = tmp_path / "run"
    train = start(*GORILA, "--env-steps", "1e6", "--checkpoint.interval", 1_000, "--run-dir", folder)
    wait_until(lambda: len(Checkpoints(folder / "checkpoints").steps()) > 2, 300)
    train.send_signal(signal.SIGINT)
    _, err = train.communicate(timeout=200)
    assert train.returncode == 130, err
    oldest, *later = Checkpoints(folder / "checkpoints").steps()
    members = [Checkpoints(folder / "members" / str(i) / "checkpoints") for i in range(2)]
    assert all(m.steps() and m.steps()[-1] > oldest for m in members)
    for steps in later:  # Delete the later checkpoints, as if the driver had been killed earlier.
        shutil.rmtree(Checkpoints(folder / "checkpoints").path(steps))
    before = [row for row in rows(folder) if int(row["env_steps"]) <= oldest]
    updates = Checkpoints(folder / "checkpoints").load_latest()[1]["learner"]["updates"]
    done = run("resume", folder, "--trust", "--env-steps", oldest + 2_000, timeout_s=400)
    assert done.returncode == 0, done.stderr
    assert f"resumed at {oldest} env steps" in events(folder) and int(rows(folder)[-1]["bundles_replaced"]) == 0
    after = rows(folder)
    assert int(after[-1]["env_steps"]) >= oldest + 2_000 and after[: len(before)] == before
    assert int(after[-1]["updates"]) > updates


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_members_end_without_their_driver_on_a_cluster_that_goes_on(start, tmp_path, number):
    """If the driver of a run dies, Ray ends the members. If the driver hangs, the members save and end after 30
    seconds."""
    folder = tmp_path / "run"
    with local_cluster(nodes=1) as cluster:
        address = cluster.ray.get_runtime_context().gcs_address
        train = start(*GORILA, "--env-steps", "1e6", "--run-dir", folder, "--address", address)
        wait_until(lambda: (folder / "metrics.csv").exists() and rows(folder))
        train.send_signal(number)
        wait_until(lambda: not titled("ray::Member.run", os.getpid()), 60 if number == signal.SIGSTOP else 30)
        if number == signal.SIGSTOP:
            saved = [Checkpoints(folder / "members" / str(i) / "checkpoints").steps() for i in range(2)]
            assert all(saved)
        train.kill()


def test_an_evaluator_that_is_killed_again_and_again_does_not_end_the_run(tmp_path):
    """Five evaluators in succession are killed soon after their start.

    A run whose evaluators were killed continues, and waits for its last evaluation at the end.
    """
    result, killed = run_with_kills(tmp_path / "run", catch(12_000), ["evaluator"] * 5, pause_s=0.3)
    assert result["exit_code"] == 0 and result["evaluation"]["episodes"] > 0 and len(killed) == 5
    assert events(tmp_path / "run").count("the evaluator died") == 5
    assert int(rows(tmp_path / "run")[-1]["evaluators_replaced"]) == 5


def test_processes_and_a_node_that_are_killed_are_replaced(tmp_path):
    kinds = ["member", "shard", "board", "node", "shard"]
    result, killed = run_with_kills(tmp_path / "run", catch(25_000), kinds, pause_s=4.0)
    assert result["env_steps"] >= 25_000 and result["exit_code"] == 0 and killed == kinds
    last, text = rows(tmp_path / "run")[-1], events(tmp_path / "run")
    assert (
        int(last["bundles_replaced"]) >= 1 and int(last["shards_replaced"]) >= 2 and np.isfinite(float(last["score"]))
    )
    for line in ("its process died", "it continues from its snapshot", "the board of the run was lost", "is gone: "):
        assert line in text
    steps = [int(r["env_steps"]) for r in rows(tmp_path / "run")]
    assert steps == sorted(steps)
