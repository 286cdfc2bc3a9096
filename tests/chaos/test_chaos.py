"""Random faults of whole runs, and the hosts that a router joins."""

import mmap
import random
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import pytest

from benchmarks.harness.program import program
from tests.chaos import __main__ as chaos
from tests.chaos import command_lines, trial
from tests.chaos.modes import MODES
from tests.chaos.network import can_make_networks, network
from tests.chaos.trial import Trial, Violation
from tests.integration.runs import run
from tests.integration.warm import Forked


def main(*argv):
    return program("tests.chaos", "", chaos.Options, list(argv), chaos.run_trials, chaos.report)


@pytest.mark.slow  # a trial of test_each_fault_is_survived, beside the fast tests of each fault
def test_a_damaged_file_is_survived(capsys, monkeypatch):
    forks = SimpleNamespace(
        Popen=lambda command, **options: Forked(command[2], command[3:], **options),
        TimeoutExpired=subprocess.TimeoutExpired,
    )
    monkeypatch.setattr(trial, "subprocess", forks)
    assert main("--seed", "1", "--trials", "1", "--modes", "ppo", "--faults", "damage") == 0
    out = capsys.readouterr().out
    assert "| all | 1 | 0 | 0 | 0 |" in out


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", chaos.FAULTS)
def test_each_fault_is_survived(fault, capsys):
    assert main("--seed", "2", "--trials", "2", "--faults", fault) == 0, capsys.readouterr().out


def test_a_lost_run_is_found(tmp_path):
    t = Trial(MODES["ppo"], tmp_path / "trial", random.Random(0), tmp_path)
    (t.run / "checkpoints" / f"{1_600:012d}").mkdir(parents=True)
    (t.run / "metrics.csv").write_text("env_steps\n80\n160\n")
    with pytest.raises(Violation, match="ends at 160 of 1600") as lost:
        t.check()
    assert lost.value.kind == "lost"
    (t.run / "metrics.csv").write_text("env_steps\n160\n80\n")
    with pytest.raises(Violation, match="not ascending"):
        t.check()
    (tmp_path / "trial" / "outside" / "rows-0000000000000001.safetensors").unlink()
    with pytest.raises(Violation, match="outside the run folder"):
        t.check_surroundings()


def test_a_process_that_remains_is_found(tmp_path, monkeypatch):
    t = Trial(MODES["ppo"], tmp_path / "trial", random.Random(0))
    process = subprocess.Popen(["sleep", "60"], env={"ACCEL_RL_CHAOS": t.mark, "PATH": "/usr/bin:/bin"})
    clock = iter(range(0, 1_000, 6))
    monkeypatch.setattr("tests.chaos.trial.time.monotonic", lambda: next(clock))
    with pytest.raises(Violation, match=r"left behind: .* sleep 60"):
        t.check_surroundings()
    t.clean()
    assert process.wait(10) == -9


def test_a_name_in_shared_memory_is_found_unless_it_is_another_programs(tmp_path, monkeypatch):
    t = Trial(MODES["ppo"], tmp_path / "trial", random.Random(0))
    clock = iter(range(0, 1_000, 6))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(b"rollouts")
        file.flush()
        monkeypatch.setattr("tests.chaos.trial.time.monotonic", lambda: next(clock))
        with pytest.raises(Violation, match=f"left behind: {file.name}"):
            t.check_surroundings()
        with mmap.mmap(file.fileno(), 0):
            t.check_surroundings()


def test_wrong_options_are_one_line(capsys):
    assert main("--faults", "kil") == 2
    assert "nearest: kill" in capsys.readouterr().err
    assert main("--minutes", "0") == 2


@pytest.mark.skipif(bool(can_make_networks()), reason=can_make_networks() or "there are networks")
def test_the_router_delays_loses_and_cuts():
    with network(2) as net:
        answer = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.78.0.2', 9)); "
        answer += "\nwhile True: data, sender = s.recvfrom(99); s.sendto(data, sender)"
        ask = "import socket, sys, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
        ask += "began = time.monotonic(); s.sendto(b'x', ('10.78.0.2', 9)); s.recv(9); print(time.monotonic() - began)"
        host = subprocess.Popen([*net.inside(1), sys.executable, "-c", answer])

        def asked():
            return subprocess.run([*net.inside(0), sys.executable, "-c", ask], capture_output=True, text=True)

        try:
            deadline = time.monotonic() + 20
            while asked().returncode and time.monotonic() < deadline:
                pass
            net.delay_s = 0.1
            assert float(asked().stdout) >= 0.2
            net.delay_s, net.cut = 0.0, {1}
            assert "TimeoutError" in asked().stderr
            net.cut, net.loss = set(), 1.0
            assert "TimeoutError" in asked().stderr
            net.loss = 0.0
            assert asked().returncode == 0
        finally:
            host.kill()
            host.wait()


def test_random_command_lines_and_settings_end_in_one_line():
    done = run("--number", 8, "--seed", 3, module="tests.chaos.command_lines")
    assert done.returncode == 0 and "config.json, refused" in done.stdout, done.stdout + done.stderr


def test_a_wrong_end_of_a_command_line_is_found():
    problem = command_lines._problem
    assert problem(2, 0.1, "Traceback (most recent call last):\nKeyError: 'a'").startswith("a traceback")
    assert problem(2, 4.0, "accel-rl: no") == "4.0 s" and not problem(2, 1.0, "accel-rl: no")
    assert problem(2, 0.1, "") and problem(-9, 0.1, "") == "no end" and problem(139, 0.1, "") == "exit code 139"
