"""Sweeps are paused and continued. A sweep that is killed during a pause can also be continued."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.sweep_display import main as status
from tests.integration.runs import progressed, wait_for
from tests.sweeps.test_sweep import LONG, NAMES, start, states, tree


@pytest.mark.slow
def test_a_pause_stops_every_process_until_it_ends(tmp_path, capsys):
    folder = tmp_path / "sweep"
    process = start(LONG, "--only", "envs=4", "seed=0", "--out", folder)
    wait_for(lambda: progressed(folder / NAMES[0], 2))
    began = time.monotonic()
    assert sweep.main(["--pause", str(folder)]) == 0
    assert time.monotonic() - began < 1
    paused = tree(process.pid)
    assert len(paused) > 1
    # A process that gets no core handles SIGSTOP late.
    wait_for(lambda: {p.status() for p in paused} == {psutil.STATUS_STOPPED}, 20, "the pause")
    rows = (folder / NAMES[0] / "metrics.csv").read_bytes()
    time.sleep(0.5)
    assert (folder / NAMES[0] / "metrics.csv").read_bytes() == rows
    # Paused runs handle SIGINT and save checkpoints only after the pause.
    process.send_signal(signal.SIGINT)
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


@pytest.mark.parametrize("flag", ["--pause", "--unpause"])
def test_without_a_sweep_there_is_one_line(flag, tmp_path, capsys):
    assert sweep.main([flag, str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"{flag} {tmp_path}: no sweep is" in err and err.count("\n") == 1
    assert status([str(tmp_path)]) == 2


PAUSE = """
import sys
from accel_rl.cli.main import main
code = main(["sweep", *sys.argv[1:]])
assert "torch" not in sys.modules
sys.exit(code)
"""


@pytest.mark.parametrize("flag", ["--pause", "--unpause"])
def test_a_pause_does_not_wait_for_torch(flag, tmp_path):
    command = [sys.executable, "-c", PAUSE, flag, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert f"{flag} {tmp_path}: no sweep is" in ended.stderr and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["--pause", "--resume"])
def test_an_empty_folder_is_refused(flag, capsys):
    assert sweep.main([flag, ""]) == 2
    err = capsys.readouterr().err
    assert "need a sweep's folder, and got ''" in err and err.count("\n") == 1
