"""Synchronous ranks on two machines, which share the run folder and no memory."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from tests.integration.runs import progressed, rows, run, wait_for
from tests.integration.test_ranks import CARTPOLE, events
from tests.integration.two_machines import ADDRESSES, two_machines

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def machines():
    try:
        with two_machines() as machines:
            yield machines
    except OSError as e:
        pytest.skip(f"two network namespaces are not possible here: {e}")


class Agents:
    """torchrun on each machine, with `ranks` ranks each."""

    def __init__(self, machines, ranks, folder, *args, restarts=0, **environment):
        fixed = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **environment}
        train = ["-m", "accel_rl", "train", "a2c", "--run-dir", folder, *args]
        self.processes = [
            machine.start(
                [
                    *(sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", ranks),
                    *("--node-rank", i, "--master-addr", ADDRESSES[0], "--master-port", 29500),
                    *("--max-restarts", restarts, "--monitor-interval", 0.2, *train),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **fixed},
            )
            for i, machine in enumerate(machines)
        ]

    def ranks(self, machine):
        """Processes of a machine's ranks."""
        tree = psutil.Process(self.processes[machine].pid).children(recursive=True)
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


def test_two_machines_equal_two_ranks_of_one_machine(machines, tmp_path):
    """Gradients go over the network, and their norm is summed in another order."""
    args = (*CARTPOLE, "--env-steps", 4_000)
    with Agents(machines, 1, tmp_path / "two", *args) as agents:
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


@pytest.mark.parametrize("victim", [0, 1])
def test_two_machines_go_on_from_the_checkpoint_when_a_rank_is_killed(machines, tmp_path, victim):
    """Two ranks on each machine, one of them killed: all are started again."""
    folder = tmp_path / "run"
    args = (*CARTPOLE, "--env-steps", 40_000, "--checkpoint.interval", 2_000)
    with Agents(machines, 2, folder, *args, restarts=1) as agents:
        wait_for(lambda: Checkpoints(folder / "checkpoints").steps(), 120)
        os.kill(agents.ranks(victim)[0].pid, signal.SIGKILL)
        ends = agents.ends(300)
        assert agents.codes() == [0, 0], ends
    steps = [int(r["env_steps"]) for r in rows(folder)]
    assert steps == sorted(set(steps)) and steps[-1] >= 40_000
    assert events(folder).count("started by torchrun") == 1
