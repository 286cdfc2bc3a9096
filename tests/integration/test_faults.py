"""Processes of real runs are killed and stopped by signals."""

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace

import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.train_command import reported
from accel_rl.envs.make import EnvConfig
from accel_rl.samplers.workers.channel import EventFd
from accel_rl.samplers.workers.worker_process import WorkerProcess
from accel_rl.settings.train import default_config
from tests.integration.runs import kill, progressed, rows, run, start, wait_for, workers
from tests.marks import slow

LONG = (
    *("train", "a2c", "--env", "CartPole-v1", "--env-steps", 10_000_000, "--log.interval", 400, "--workers", 2),
    *("--evaluation.interval", 0, "--checkpoint.interval", 0, "--decorrelation-steps", 0),
)


def lines_with(path, text):
    return [line for line in path.read_text().splitlines() if text in line] if path.exists() else []


def test_a_killed_worker_is_replaced_and_logged(tmp_path):
    folder = tmp_path / "run"
    process = start(*LONG, "--run-dir", folder)
    try:
        wait_for(lambda: progressed(folder, 1))
        victim = workers(process.pid)[0].pid
        os.kill(victim, signal.SIGKILL)
        seen = f"(pid {victim}) was killed by SIGKILL"  # within a second: tests/samplers/workers/test_pool.py
        wait_for(lambda: lines_with(folder / "events.log", seen), 30, "seen")
        n = len(rows(folder))
        wait_for(lambda: len(workers(process.pid)) == 2 and progressed(folder, n + 2))
        assert process.poll() is None
    finally:
        kill(process, signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped at" in out


def test_a_starting_worker_outlives_a_signal_to_its_process_group():
    """A worker process survives SIGTERM before it has imported the module with its signal handlers."""
    worker = WorkerProcess.launch(0, EventFd(), set())
    os.kill(worker.pid, signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.process.wait(1)
    worker.close()
    assert worker.process.wait(10) == 0  # The closed socket ends the worker.


@pytest.mark.slow
def test_a_signal_while_workers_start_ends_the_run(open_trainer, capsys):
    config = replace(default_config("a2c"), env=EnvConfig(id="tests.environments:blocks_at_reset"))
    trainer = open_trainer(config, opens=False)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    began = time.monotonic()
    result = trainer.run()
    assert result.exit_code == 143 and time.monotonic() - began < 15
    reported(trainer.config, trainer.run_folder, result)
    next_commands = capsys.readouterr().out.partition("next:\n")[2]
    assert "resume" in next_commands and "from the beginning" in next_commands and "watch" not in next_commands


def test_strict_stops_with_an_error(tmp_path):
    folder = tmp_path / "run"
    process = start(*LONG, "--run-dir", folder, "--strict")
    wait_for(lambda: progressed(folder, 1))
    victim = workers(process.pid)[1].pid
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(rf"worker \d+ \(pid {victim}\) was killed by SIGKILL", err) and "Traceback" not in err


@pytest.mark.parametrize("end", [signal.SIGKILL, slow(signal.SIGTERM)])
def test_nothing_outlives_a_main_process(tmp_path, end):
    """Worker processes, and processes that environments have started, end after the main process was killed."""
    before, seconds = set(os.listdir("/dev/shm")), f"600.{os.getpid()}"
    folder = tmp_path / "run"
    words = (*LONG, "--env", "tests.environments:with_children")
    process = start(*words, "--run-dir", folder, env={**os.environ, "SLEEP_S": seconds})

    def sleeping():
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]

    try:
        wait_for(lambda: progressed(folder, 1))
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(workers(process.pid)) == 2 and len(sleeping()) >= 32  # 2 sleeping processes per environment
    finally:
        kill(process, end)
        process.communicate()
    wait_for(lambda: not sleeping(), 10)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    assert set(os.listdir("/dev/shm")) <= before


def test_ctrl_c_to_the_whole_group_saves_and_ends(tmp_path):
    folder = tmp_path / "run"
    process = start(*LONG, "--run-dir", folder, start_new_session=True)
    wait_for(lambda: progressed(folder, 1))
    children = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 30 and process.returncode == 130, err
    assert list((folder / "checkpoints").glob("0*")) and "accel-rl resume" in out
    assert not any(p.is_running() for p in children)


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_worker_that_is_stopped(tmp_path):
    """If SIGTERM arrives while a worker process hangs, the run saves without waiting for --sampler.timeout-s (60 s)."""
    folder = tmp_path / "run"
    process = start(*LONG, "--run-dir", folder, "--sampler.timeout-s", 60)
    wait_for(lambda: progressed(folder, 1))
    os.kill(workers(process.pid)[0].pid, signal.SIGSTOP)
    time.sleep(0.5)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=55)
    assert process.returncode == 143 and "no answer from worker" in err, err
    # A stop takes 5 s and the start of a new worker process, which may take long on a busy machine.
    assert time.monotonic() - began < 40
    assert list((folder / "checkpoints").glob("0*"))


def test_a_full_disk_leaves_the_last_checkpoint_whole(small_disk):
    """A run on a full disk keeps its last complete checkpoint: a disk of 12 MB has room for one checkpoint of 8 MB."""
    disk = small_disk("12m")
    folder = disk / "run"
    done = run(
        *("train", "a2c", "--game", "pong", "--env-steps", 320, "--checkpoint.interval", 160, "--engine", "in-process"),
        *("--evaluation.interval", 0, "--decorrelation-steps", 0, "--run-dir", folder),
    )
    assert done.returncode == 1 and "could not write checkpoint" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert [s for s, _ in [Checkpoints(folder / "checkpoints").load_latest()]] == [160]
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    done = run("resume", folder)
    assert done.returncode == 0, done.stderr
    assert not list((folder / "checkpoints").glob(".writing*"))
