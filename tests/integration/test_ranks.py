"""Runs of several ranks, which the command line or torchrun starts, and whose processes are killed."""

import os
import re
import shutil
import signal
import socket
import time

import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from tests.integration.looping import LOOPS
from tests.integration.runs import checkpoint_bytes, kill, progressed, ranks_of, rows, run, start, wait_for
from tests.marks import slow

CARTPOLE = (
    *("--env", "CartPole-v1", "--engine", "in-process", "--torch-threads", 1, "--envs", 8, "--seed", 3),
    *("--evaluation.interval", 0, "--log.interval", 400),
)
LONG = (*CARTPOLE, "--env-steps", 10_000_000, "--checkpoint.interval", 2_000)


def descendants(*pids):
    return [c for pid in pids for c in psutil.Process(pid).children(recursive=True)]


def gone(processes, timeout_s=10.0):
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def events(folder):
    return (folder / "events.log").read_text() if (folder / "events.log").exists() else ""


SHORT = ("train", "a2c", *CARTPOLE, "--horizon", 5, "--env-steps", 1_200, "--log.interval", 40)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished run of two synchronous ranks."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = run(*SHORT, "--ranks", 2, "--checkpoint.interval", 400, "--checkpoint.keep", 3, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_ranks_stop_and_resume_bit_for_bit(whole, tmp_path):
    """A run of two ranks that was interrupted and resumed has the same checkpoints as the uninterrupted run.

    Each rank restores its own part of the checkpoint.
    """
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    for part in ("", "ranks/1"):  # as if killed earlier
        for steps in (800, 1_200):
            shutil.rmtree(Checkpoints(cut / part / "checkpoints").path(steps))
    assert run("resume", cut).returncode == 0
    assert int(rows(whole)[-1]["updates"]) == 1_200 // 40
    for part in ("", "ranks/1"):
        a, b = checkpoint_bytes(whole / part), checkpoint_bytes(cut / part)
        assert a == b
    assert checkpoint_bytes(whole) != checkpoint_bytes(whole / "ranks/1")  # other environments


@pytest.mark.slow
def test_rank_0_decides_by_its_clock_when_all_ranks_save(tmp_path):
    folder = tmp_path / "run"
    options = ("--checkpoint.minutes", 0.005, "--checkpoint.keep", 1_000, "--evaluation.interval", 0)
    done = run("train", "a2c", *CARTPOLE, "--ranks", 2, "--env-steps", 6_000, *options, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    steps = [Checkpoints(folder / part / "checkpoints").steps() for part in ("", "ranks/1")]
    assert steps[0] == steps[1] and len(steps[0]) > 2 and steps[0][-1] == 6_000


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The folder of a finished run of one rank with the settings of the fixture `whole`."""
    folder = tmp_path_factory.mktemp("one") / "run"
    done = run(*SHORT, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_ranks_change_only_the_last_digits(one, whole):
    """Two synchronous ranks compute the results of one rank, except for rounding, if each update uses the whole
    rollout."""
    assert_equal_digits(one, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "ranks"), [("a2c", 4), ("ppo", 2), ("pqn", 4), ("impala", 2)])
def test_the_number_of_ranks_changes_only_the_last_digits(tmp_path, algorithm, ranks):
    more = {"ppo": ("--epochs", 2), "pqn": ("--epochs", 2, "--epsilon-spread", 7), "impala": ("--batches", 1)}
    whole = ("--minibatch", 10**6) if algorithm in ("ppo", "pqn") else ()
    args = ("train", algorithm, *CARTPOLE, *more.get(algorithm, ()), *whole, "--horizon", 5, "--env-steps", 1_200)
    args = (*args, "--log.interval", 40)
    for name, n in (("one", 1), ("several", ranks)):
        done = run(*args, "--ranks", n, "--run-dir", tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_equal_digits(tmp_path / "one", tmp_path / "several")


def assert_equal_digits(one_rank, ranks):
    one, several = rows(one_rank), rows(ranks)
    assert len(one) == len(several) == 30 and int(one[-1]["episodes"]) > 5
    for a, b in zip(one, several, strict=True):
        assert (a["env_steps"], a["updates"], a["episodes"]) == (b["env_steps"], b["updates"], b["episodes"])
        for name in ("score", "loss", "grad_norm"):
            assert (a[name] == b[name] == "") or float(a[name]) == pytest.approx(float(b[name]), rel=1e-4), (name, a, b)


@pytest.mark.slow
def test_one_asynchronous_rank_equals_single_mode(one, tmp_path):
    """A run of one asynchronous rank has the same metrics.csv as a run without ranks, except for times."""
    done = run(*SHORT, "--update", "async", "--run-dir", tmp_path / "async")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "async") == rows(one) and len(rows(one)) == 30


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "pqn", "dqn"])
def test_an_asynchronous_rank_of_each_kind_equals_single_mode(tmp_path, algorithm):
    """A run of one asynchronous rank has the same metrics.csv as a run without ranks. The algorithms use Adam (ppo),
    RAdam (pqn) or a replay (dqn)."""
    more = {"dqn": ("--replay.size", 2_000, "--replay.start", 500, "--target-interval", 200)}.get(algorithm, ())
    args = ("train", algorithm, *CARTPOLE, *more, "--env-steps", 4_096)
    assert run(*args, "--run-dir", tmp_path / "single").returncode == 0
    done = run(*args, "--run-dir", tmp_path / "async", "--update", "async")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "async") == rows(tmp_path / "single") and len(rows(tmp_path / "async")) >= 2


def test_a_killed_rank_stops_a_synchronous_run_and_is_named(tmp_path):
    process = start("train", "a2c", *LONG, "--ranks", 2, "--run-dir", tmp_path / "run")
    wait_for(lambda: progressed(tmp_path / "run", 2), 60)
    children = descendants(process.pid)
    victim = ranks_of(process.pid)[1].pid
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert process.returncode == 1 and re.search(rf"rank 1 \(pid {victim}\) was killed by SIGKILL", err), err
    assert "Traceback" not in err and gone(children)


@pytest.mark.slow  # as tests/ranks/test_stalled_ranks.py
def test_a_rank_that_hangs_is_named(tmp_path):
    folder = tmp_path / "run"
    process = start("train", "a2c", *LONG, "--ranks", 2, "--distributed.timeout-s", 2, "--run-dir", folder)
    wait_for(lambda: progressed(folder, 2), 60)
    children = descendants(process.pid)
    os.kill(ranks_of(process.pid)[1].pid, signal.SIGSTOP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "rank 1 is gone or hangs" in err, err
    assert gone(children)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_a_suspended_rank_does_not_delay_a_stop(tmp_path, update):
    """A run with a suspended rank ends soon after SIGTERM, because containers are killed 10 s after SIGTERM."""
    process = start("train", "a2c", *LONG, "--ranks", 2, "--update", update, "--run-dir", tmp_path / "run")
    wait_for(lambda: progressed(tmp_path / "run", 2), 60)
    children, suspended = descendants(process.pid), ranks_of(process.pid)[1].pid
    os.kill(suspended, signal.SIGSTOP)
    kill(process, signal.SIGTERM)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == (143 if update == "async" else 1) and "Traceback" not in err, err
    assert f"rank 1 (pid {suspended}) is suspended (SIGSTOP)" in err and gone(children)


@pytest.mark.parametrize(
    ("victim", "fault"),
    [
        (0, signal.SIGKILL),
        slow(1, signal.SIGKILL),
        slow(0, signal.SIGSTOP),  # as tests/ranks/test_stalled_ranks.py
    ],
)
def test_a_lost_asynchronous_rank_is_replaced_while_the_other_goes_on(tmp_path, victim, fault):
    folder = tmp_path / "run"
    args = (*LONG, "--ranks", 2, "--update", "async", "--distributed.timeout-s", 3, "--run-dir", folder)
    args = (*args, "--env", "tests.environments:takes_a_millisecond", "--log.interval", 80)
    process = start("train", "a2c", *args)
    try:
        wait_for(lambda: progressed(folder, 2) and Checkpoints(folder / "checkpoints").steps(), 60)
        wait_for(lambda: progressed(folder / "ranks/1", 2), 60)
        before = ranks_of(process.pid)
        os.kill(before[victim].pid, fault)
        lost = f"rank {victim} (pid {before[victim].pid})"
        wait_for(lambda: f"{lost} was killed by SIGKILL" in events(folder), 20, "seen")
        assert (f"{lost} has used no CPU time for 3 s" in events(folder)) == (fault == signal.SIGSTOP)
        other = folder if victim else folder / "ranks/1"
        n = len(rows(other))
        wait_for(lambda: progressed(other, n + 2), 60, "the other goes on")
        own = folder / "ranks/1" if victim else folder
        n = len(rows(own))
        wait_for(lambda: len(rows(own)) > n + 1, 60, "the new one goes on")
        assert before[1 - victim].is_running() and process.poll() is None
    finally:
        children = descendants(process.pid)
        kill(process, signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped at" in out, err
    assert gone(children) and "Traceback" not in err


LOOPING = (
    *("tests.integration.looping:Loops", "--distributed.timeout-s", 2),
    *("--sampler.start-timeout-s", 6, "--sampler.timeout-s", 6),
)


@pytest.mark.slow
def test_an_asynchronous_rank_whose_code_loops_is_replaced(tmp_path):
    folder, trigger = tmp_path / "run", tmp_path / "loops"
    env = {**os.environ, LOOPS: str(trigger)}
    process = start("train", *LOOPING, *LONG, "--ranks", 2, "--update", "async", "--run-dir", folder, env=env)
    try:
        wait_for(lambda: progressed(folder, 2) and progressed(folder / "ranks/1", 2), 60)
        trigger.touch()
        wait_for(lambda: "neither acted nor learned for 8 s" in events(folder), 30, "seen")
        wait_for(lambda: "takes its place" in events(folder), 30, "replaced")
        n = len(rows(folder)), len(rows(folder / "ranks/1"))
        wait_for(lambda: len(rows(folder)) > n[0] + 1 and len(rows(folder / "ranks/1")) > n[1] + 1, 60)
    finally:
        kill(process, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_no_orphan_is_left_by_a_killed_run(tmp_path, update):
    before = set(os.listdir("/dev/shm"))
    folder = tmp_path / "run"
    args = [*(a for a in LONG if a not in ("--engine", "in-process")), "--workers", 1]
    process = start("train", "a2c", *args, "--ranks", 2, "--update", update, "--run-dir", folder)
    wait_for(lambda: progressed(folder, 1), 60)
    children = descendants(process.pid)
    assert len(children) >= 4
    kill(process)
    process.wait()
    assert gone(children, 5) and set(os.listdir("/dev/shm")) <= before


# -- torchrun ------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def agent(port, node, folder, *args, restarts=0, nodes=2):
    """Start a torchrun agent with two ranks, as on machine `node` of `nodes` machines."""
    command = [
        *("--nnodes", nodes, "--nproc-per-node", 2),
        *("--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port),
        *("--max-restarts", restarts, "--monitor-interval", 0.2),
        *("-m", "accel_rl", "train", "a2c", "--run-dir", folder, *args),
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return start(*command, module="torch.distributed.run", env=env)


def two_agents(folder, *args, **kwargs):
    port = free_port()
    return [agent(port, node, folder, *args, **kwargs) for node in (0, 1)]


def end(agents):
    children = [c for a in agents if a.poll() is None for c in descendants(a.pid)]
    for a in agents:
        a.kill()
    for a in agents:
        a.communicate()
    return children


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_two_torchrun_agents_train(tmp_path, update):
    agents = two_agents(tmp_path / "run", *CARTPOLE, "--update", update, "--env-steps", 1_600)
    try:
        ends = [a.communicate(timeout=200) for a in agents]
        assert [a.returncode for a in agents] == [0, 0], ends
    finally:
        end(agents)
    steps, updates = (int(rows(tmp_path / "run")[-1][name]) for name in ("env_steps", "updates"))
    assert 1_600 <= steps < (1_601 if update == "all-reduce" else 1_800) and updates == steps // 40
    assert f"finished at {steps:,} env steps" in ends[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
@pytest.mark.parametrize("victim", ["rank", "agent", "store"])
def test_torchrun_without_restarts_ends_when_something_is_killed(tmp_path, victim, update):
    """A run under torchrun ends if a rank of the second agent, the second agent, or the first agent (with torch's
    store) is killed."""
    before = set(os.listdir("/dev/shm"))
    agents = two_agents(tmp_path / "run", *LONG, "--update", update, "--distributed.timeout-s", 20)
    try:
        wait_for(lambda: progressed(tmp_path / "run", 2), 120)
        children = descendants(*(a.pid for a in agents))
        memory = "accel_rl_gradients" if update == "all-reduce" else "accel_rl_central"
        assert len([c for c in children if any(memory in m.path for m in c.memory_maps())]) == 4
        target = {"agent": agents[1].pid, "store": agents[0].pid}.get(victim)
        os.kill(target or psutil.Process(agents[1].pid).children()[0].pid, signal.SIGKILL)
        ends = [a.communicate(timeout=60) for a in agents]
        assert all(a.returncode != 0 for a in agents) and gone(children) and set(os.listdir("/dev/shm")) <= before
        if update == "async":
            lost, left = {"rank": ("2", 0), "agent": ("2|3|2, 3", 0), "store": ("0|1|0, 1", 1)}[victim]
            assert re.search(rf"rank ({lost}) is gone; stopped at [\d,]+ env steps, and saved", ends[left][1]), ends
        elif victim != "store":
            missing = "rank 2 is" if victim == "rank" else "rank 2, 3 is"
            assert f"{missing} gone or hangs" in ends[0][1], ends[0][1]
    finally:
        end(agents)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_torchrun_restarts_go_on_from_the_checkpoint(tmp_path, update):
    folder = tmp_path / "run"
    args = (*CARTPOLE, "--update", update, "--env-steps", 40_000, "--checkpoint.interval", 2_000)
    agents = two_agents(folder, *args, restarts=1)
    try:
        wait_for(lambda: Checkpoints(folder / "checkpoints").steps(), 120)
        os.kill(psutil.Process(agents[1].pid).children()[0].pid, signal.SIGKILL)
        ends = [a.communicate(timeout=400) for a in agents]
        assert [a.returncode for a in agents] == [0, 0], ends
    finally:
        end(agents)
    steps = [int(r["env_steps"]) for r in rows(folder)]
    assert steps == sorted(set(steps)) and steps[-1] >= 40_000 and "started by torchrun" in events(folder)


def asynchronous_agent(folder, *args, **kwargs):
    return agent(free_port(), 0, folder, "--update", "async", *args, nodes=1, **kwargs)


@pytest.mark.slow
def test_asynchronous_ranks_of_one_torchrun_agent_train(tmp_path):
    """A run of two asynchronous ranks under torchrun counts the env steps of both ranks, and saves a part of the
    checkpoint per rank."""
    folder = tmp_path / "run"
    process = asynchronous_agent(folder, *CARTPOLE, "--env-steps", 8_000)
    try:
        out, err = process.communicate(timeout=200)
    finally:
        end([process])
    assert process.returncode == 0 and "finished at 8,0" in out, err
    last, other = rows(folder)[-1], rows(folder / "ranks/1")[-1]
    assert 8_000 <= int(last["env_steps"]) < 8_100 and int(last["updates"]) == int(last["env_steps"]) // 40
    assert int(other["env_steps"]) >= 8_000 and Checkpoints(folder / "ranks/1/checkpoints").steps()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_ends_when_an_asynchronous_rank_is_stopped(tmp_path, victim):
    """If one of two asynchronous ranks under torchrun is suspended, the other rank kills it, saves a checkpoint, and
    ends."""
    folder = tmp_path / "run"
    args = (*CARTPOLE, "--env-steps", 10_000_000, "--checkpoint.interval", 0, "--distributed.timeout-s", 3)
    process = asynchronous_agent(folder, *args)
    try:
        wait_for(lambda: progressed(folder, 2) and progressed(folder / "ranks/1", 2), 120)
        ranks = sorted(psutil.Process(process.pid).children(), key=lambda c: int(c.environ()["RANK"]))
        ranks[victim].send_signal(signal.SIGSTOP)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert f"rank {victim} (pid {ranks[victim].pid}) has used no CPU time for 3 s" in out + err, err
        assert Checkpoints((folder if victim else folder / "ranks/1") / "checkpoints").load_latest()
    finally:
        end([process])
