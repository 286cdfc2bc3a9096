"""Sweeps with --idle: the scheduling class of processes, and --resume with an experiment's name."""

import json
import os
from pathlib import Path

import pytest

from accel_rl.sweeps.idle import TIMEOUT_S
from accel_rl.sweeps.sweep_command import with_default_folder
from tests.integration.runs import wait_for
from tests.sweeps.test_sweep import LONG, NAMES, SMALL, start, states, tree


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
        # With autogroups, Linux divides the cores among sessions before it considers the scheduling class.
        # The file `autogroup` is empty without autogroups, and in processes of the first session.
        session = Path(f"/proc/{json.loads(state.read_text())[NAMES[0]]['pid']}/autogroup")
        if session.exists() and session.read_text():
            wait_for(lambda: session.read_text().split()[-2:] == ["nice", "19"])
            assert Path("/proc/self/autogroup").read_text().split()[-1:] != ["19"]
    finally:  # Kill the run: on a busy machine, it would get no time to stop.
        for p in tree(process.pid):
            p.kill()
        process.communicate()


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
