"""Sweeps in idle time: scheduling class, pause, a kill during a pause, and --resume by experiment."""

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.idle import TIMEOUT_S
from accel_rl.sweeps.sweep_command import with_default_folder
from accel_rl.sweeps.sweep_display import main as status
from tests.integration.runs import progressed, wait_for
from tests.sweeps.test_sweep import LONG, NAMES, SMALL, start, states


def tree(pid: int) -> list[psutil.Process]:
    sweep_process = psutil.Process(pid)
    return [sweep_process, *sweep_process.children(recursive=True)]


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no idle scheduling class")
def test_a_run_in_idle_time_has_the_lowest_share_of_the_cores(tmp_path):
    folder = tmp_path / "sweep"
    process = start(LONG, "--only", "envs=4", "seed=0", "--idle", "--out", folder)
    try:
        config = folder / NAMES[0] / "config.json"
        state = folder / "state.json"
        wait_for(lambda: state.exists() and states(folder)[NAMES[0]] == "running")
        assert json.loads(config.read_text())["sampler"]["timeout_s"] == TIMEOUT_S
        assert all(os.sched_getscheduler(p.pid) == os.SCHED_IDLE for p in tree(process.pid))
        # A kernel that divides the cores among sessions does so before it reads the scheduling class. The file is empty
        # where the kernel does not, and for a process of the first session.
        session = Path(f"/proc/{json.loads(state.read_text())[NAMES[0]]['pid']}/autogroup")
        if session.exists() and session.read_text():
            wait_for(lambda: session.read_text().split()[-2:] == ["nice", "19"])
            assert Path("/proc/self/autogroup").read_text().split()[-1:] != ["19"]
    finally:  # On a busy machine the run gets no time to save a checkpoint.
        for p in tree(process.pid):
            p.kill()
        process.communicate()


def test_a_pause_stops_every_process_until_it_ends(tmp_path, capsys):
    folder = tmp_path / "sweep"
    process = start(LONG, "--only", "envs=4", "seed=0", "--out", folder)
    wait_for(lambda: progressed(folder / NAMES[0], 2))
    began = time.monotonic()
    assert sweep.main(["--pause", str(folder)]) == 0
    assert time.monotonic() - began < 1
    paused = tree(process.pid)
    assert len(paused) > 1
    # A process stops when it next gets a core.
    wait_for(lambda: {p.status() for p in paused} == {psutil.STATUS_STOPPED}, 20, "the pause")
    rows = (folder / NAMES[0] / "metrics.csv").read_bytes()
    time.sleep(0.5)
    assert (folder / NAMES[0] / "metrics.csv").read_bytes() == rows
    process.send_signal(signal.SIGINT)  # kept until the pause ends: then each run saves a checkpoint
    assert sweep.main(["--unpause", str(folder)]) == 0
    process.communicate(timeout=200)
    assert process.returncode == 130 and "stopped" in states(folder).values()
    assert "no sweep is paused" not in capsys.readouterr().err
    assert sweep.main(["--unpause", str(folder)]) == 2


@pytest.mark.slow
def test_a_sweep_killed_in_a_pause_is_resumed(tmp_path, capsys):
    folder = tmp_path / "sweep"
    process = start(LONG, "--only", "envs=4", "seed=0", "--out", folder)
    wait_for(lambda: progressed(folder / NAMES[0], 2))
    assert sweep.main(["--pause", str(folder)]) == 0
    runs = tree(process.pid)[1:]
    process.kill()
    process.communicate()
    assert sweep.main(["--resume", str(folder)]) == 0, capsys.readouterr().err
    assert set(states(folder).values()) == {"done"}
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in runs)


def test_resume_by_experiment_starts_the_sweep_and_continues_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began = with_default_folder([SMALL, "--idle", "--resume"])
    assert began == [SMALL, "--idle", "--out", str(Path("runs/grids-small"))]
    folder = Path("runs/grids-small")
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text("{}")
    assert with_default_folder([SMALL, "--idle", "--resume"]) == [SMALL, "--idle", "--resume", str(folder)]
    assert with_default_folder(["--resume", "there", "--idle"]) == ["--resume", "there", "--idle"]
    other = with_default_folder([SMALL, "--out", "elsewhere", "--resume"])
    assert other == [SMALL, "--out", "elsewhere"]


@pytest.mark.parametrize("flag", ["--pause", "--unpause"])
def test_without_a_sweep_there_is_one_line(flag, tmp_path, capsys):
    assert sweep.main([flag, str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"{flag} {tmp_path}: no sweep is" in err and err.count("\n") == 1
    assert status([str(tmp_path)]) == 2
