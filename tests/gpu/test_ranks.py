"""Synchronous ranks on simulated GPUs, in separate processes."""

import signal
import subprocess
import sys

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from tests.gpu.rank_runs import QUICK, RUNS, devices
from tests.integration.runs import command, ranks_of, rows, run, wait_for
from tests.marks import slow


def learned_by_two(folder, names):
    """Run rank_runs.py in two processes, and return for each rank the learned parameters by run and devices."""
    outs = [folder / str(r) for r in range(2)]
    command = [sys.executable, "-m", "tests.gpu.rank_runs"]
    ranks = []
    for r, out in enumerate(outs):
        out.mkdir()
        arguments = [str(r), str(folder / "store"), str(out), *names]
        ranks.append(subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True))
    try:
        for rank in ranks:
            _, err = rank.communicate(timeout=280)
            assert rank.returncode == 0, err
    finally:
        for rank in ranks:
            rank.kill()
    return [torch.load(out / "found.pt") for out in outs]


@pytest.mark.parametrize(
    "names",
    [
        slow(QUICK),
        *(slow((name,)) for name in RUNS if name not in QUICK),
    ],
    ids=", ".join,
)
def test_ranks_on_gpus_learn_what_ranks_on_cpus_do(simulated_gpu, tmp_path, names):
    found = learned_by_two(tmp_path, names)
    assert {tuple(key.split("/")) for key in found[0]} == {(name, where) for name in names for where in devices(name)}
    for key, parameters in found[0].items():
        name, where = key.split("/")
        for a, b, c in zip(found[0][f"{name}/cpu"], parameters, found[1][key], strict=True):
            assert torch.equal(b, c), f"{key}: the ranks differ"
            torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4, msg=lambda m, key=key: f"{key}: {m}")
        if where == "captured":
            for a, b in zip(found[0][f"{name}/own"], parameters, strict=True):
                assert torch.equal(a, b), f"{key} differs from the run from Python"


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_a_run_on_two_gpus(simulated_gpu, tmp_path, update):

    done = run(
        *("train", "dqn", "--env", "CartPole-v1", "--engine", "in-process", "--gpus", "0,1", "--update", update),
        *("--envs", 8, "--horizon", 4, "--network", "a3c", "--batch-size", 16, "--replay.prioritized"),
        *("--replay.size", 1_000, "--replay.start", 100, "--env-steps", 480, "--evaluation.interval", 240),
        *("--evaluation.steps", 100, "--log.interval", 120, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    last = rows(tmp_path / "run")[-1]
    assert int(last["updates"]) > 5 and float(last["eval_score"]) > 0
    for folder in (tmp_path / "run", tmp_path / "run/ranks/1"):
        assert "exchange" in (folder / "events.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "collective"),
    [
        (signal.SIGKILL, 60),
        (signal.SIGSTOP, 60),
        # Rank 1 aborts at its n-th collective: the first update is not captured, later updates are.
        *((signal.SIGABRT, n) for n in (1, 3, 5, 60)),
    ],
)
def test_a_lost_rank_in_a_captured_update_ends_the_run(simulated_gpu, monkeypatch, tmp_path, fault, collective):
    """A dead or hanging rank 1 ends the run, although rank 0 waits for its GPU for ever and cannot handle signals.

    If rank 1 is dead, the launcher ends all ranks at once. If rank 1 hangs, a thread of rank 0 ends rank 0 after
    --distributed.timeout-s seconds.
    """
    monkeypatch.setenv("ACCEL_RL_TEST_NCCL", "1")
    monkeypatch.setenv("ACCEL_RL_TEST_LOST", f"1 {int(fault)} {collective}")
    folder = tmp_path / "run"
    train = command(
        *("train", "a2c", "--env", "CartPole-v1", "--engine", "in-process", "--gpus", "0,1", "--envs", 8),
        *("--horizon", 4, "--network", "a3c", "--env-steps", 10_000_000, "--evaluation.interval", 0),
        *("--log.interval", 320, "--checkpoint.interval", 320, "--distributed.timeout-s", 3, "--run-dir", folder),
    )
    process = subprocess.Popen(train, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: process.poll() is not None or len(ranks_of(process.pid)) == 2)
        ranks = ranks_of(process.pid)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    killed = f"rank 1 (pid {ranks[1].pid}) was killed by {fault.name}"
    hangs = "rank 1 is gone or hangs: gradients could not be exchanged (rank 0: its GPU has completed nothing for 3 s)"
    assert process.returncode == 1 and (hangs if fault == signal.SIGSTOP else killed) in err, err
    assert "Traceback" not in err and not list(folder.glob("events.log"))  # all updates are captured
    assert not any(rank.is_running() for rank in ranks)
    if collective == 60:
        checkpoints = Checkpoints(folder / "checkpoints")
        assert load(checkpoints.path(checkpoints.steps()[-1]))["env_steps"] > 0
