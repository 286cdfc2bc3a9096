"""Synchronous ranks on two simulated machines, which share the run folder, but have no shared memory."""

import os
import subprocess
import sys

import psutil
import pytest

from tests.chaos.network import can_make_networks, network
from tests.integration.runs import progressed, rows, run, wait_for
from tests.integration.test_ranks import CARTPOLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


# Processes in separate PID namespaces cannot open each other's shared memory.
APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture
def hosts():
    if reason := can_make_networks():
        pytest.skip(reason)
    with network(2) as hosts:
        yield hosts


class Agents:
    """Two torchrun agents, each with one rank on one of the two hosts."""

    def __init__(self, hosts, folder, *args):
        train = ["-m", "accel_rl", "train", "a2c", "--run-dir", folder, *args]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.processes = []
        for i in range(2):
            command = [
                *(*hosts.inside(i), *APART, sys.executable, "-m", "torch.distributed.run", "--nnodes", 2),
                *("--nproc-per-node", 1, "--node-rank", i, "--master-addr", hosts.address(0), "--master-port", 29500),
                *("--monitor-interval", 0.2, *train),
            ]
            command = [str(word) for word in command]
            self.processes.append(subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=env))

    def ranks(self, host):
        """Return the processes of a host's ranks."""
        tree = psutil.Process(self.processes[host].pid).children(recursive=True)
        return [p for p in tree if "accel_rl" in p.cmdline() and "torch.distributed.run" not in p.cmdline()]

    def ends(self, timeout_s):
        return [p.communicate(timeout=timeout_s) for p in self.processes]

    def codes(self):
        return [p.returncode for p in self.processes]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()


def test_two_machines_equal_two_ranks_of_one_machine(hosts, tmp_path):
    """Two ranks on two machines learn the parameters of two ranks on one machine, except for rounding in the norm of
    the gradient."""
    args = (*CARTPOLE, "--env-steps", 4_000)
    with Agents(hosts, tmp_path / "two", *args) as agents:
        wait_for(lambda: progressed(tmp_path / "two", 1), 120)
        assert [len(agents.ranks(i)) for i in (0, 1)] == [1, 1]
        maps = [m.path for i in (0, 1) for p in agents.ranks(i) for m in p.memory_maps()]
        assert maps and not any("accel_rl_gradients" in path for path in maps)
        ends = agents.ends(200)
        assert agents.codes() == [0, 0], ends
    assert "finished at 4,000 env steps" in ends[0][0]
    done = run("train", "a2c", *args, "--ranks", 2, "--run-dir", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    found, expected = rows(tmp_path / "two"), rows(tmp_path / "one")
    assert len(found) == len(expected) == 10
    for a, b in zip(found, expected, strict=True):
        assert numbers(a) == pytest.approx(numbers(b), rel=1e-6, abs=5e-7)


def numbers(row):
    return {name: float(value) for name, value in row.items() if value}
