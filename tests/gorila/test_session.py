"""Ray sessions: a killed driver leaves no processes behind, and accel_rl connects to a running cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from accel_rl.gorila.ray_session import cluster_ray
from accel_rl.text.errors import ConfigError
from tests.gorila.local_cluster import local_cluster

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")]

GONE_S = 30.0
SEEN_S = 90.0  # seconds until Ray reports a lost node
DRIVER = """
import subprocess, sys, time
from accel_rl.gorila.ray_session import local_ray

class Parent:
    def child(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet).pid

with local_ray() as ray:
    actor = ray.remote(num_cpus=0)(Parent).remote()
    pid = ray.get(actor.child.remote())
    print(pid, ray._private.worker._global_node.get_session_dir_path(), flush=True)
    if sys.stdin.readline():
        raise KeyboardInterrupt
"""


class Driver:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER], stdin=-1, stdout=-1, text=True, start_new_session=True
        )
        pid, folder = self.process.stdout.readline().split()
        self.folder = Path(folder).parent
        self.all = psutil.Process(self.process.pid).children(recursive=True)
        assert len(self.all) >= 7 and int(pid) in [p.pid for p in self.all]

    def living(self):
        return [p for p in self.all if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def wait_until_gone(self):
        """Wait until all processes of the session have ended and its folder is removed. Returns the waiting time in
        seconds."""
        self.process.wait()
        began = time.monotonic()
        while self.living() or self.folder.exists():
            assert time.monotonic() < began + GONE_S, (self.living(), self.folder.exists())
            time.sleep(0.05)
        return time.monotonic() - began


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["driver", "group"])
def test_nothing_is_left_of_a_killed_driver_and_other_sessions_stay(kill):
    other, driver = Driver(), Driver()
    try:
        kill(driver.process.pid, signal.SIGKILL)
        print(f"gone after {driver.wait_until_gone():.1f} s")
        assert other.folder.exists() and len(other.living()) == len(other.all)
    finally:
        other.process.stdin.close()  # ends by itself
    other.wait_until_gone()
    assert other.process.returncode == 0


def test_ctrl_c_at_the_terminal_leaves_the_end_to_the_driver():
    driver = Driver()
    os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does
    driver.wait_until_gone()
    assert driver.process.returncode == -signal.SIGINT or driver.process.returncode == 1


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(nodes=3, cpus=1) as cluster:
        yield cluster


class Where:
    def node(self):
        import ray

        return ray.get_runtime_context().get_node_id()


def actor_on(cluster, node):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(cluster.node_id(node), soft=False)
    return cluster.ray.remote(num_cpus=1, max_restarts=0)(Where).options(scheduling_strategy=place).remote()


def test_all_nodes_listen_on_loopback_alone(cluster):
    actors = [actor_on(cluster, i) for i in range(3)]
    assert cluster.ray.get([a.node.remote() for a in actors]) == [cluster.node_id(i) for i in range(3)]
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    assert all(set(cluster.pids(i)) <= {p.pid for p in processes} for i in range(3))
    listening = [c for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert len(listening) >= 9
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}


def connect(address, **changes):
    """Connect to a running Ray cluster from a new process, and return the last line of its output."""
    code = f"from accel_rl.gorila.ray_session import cluster_ray\nwith cluster_ray({address!r}) as ray:\n"
    code += "    print('nodes', len(ray.nodes()))"
    env = {k: v for k, v in {**os.environ, **changes}.items() if v is not None}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize("changes", [{"RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": None}], ids=["wrong", "none"])
def test_a_cluster_of_three_nodes_refuses_calls_without_its_token(cluster, changes):
    address = cluster.ray.get_runtime_context().gcs_address
    assert [connect(address) for _ in range(2)] == ["nodes 3"] * 2, "a cluster outlives those who have joined it"
    line = connect(address, **changes)
    assert f"ConfigError: --address {address}: Failed to connect to Ray cluster" in line and "RAY_AUTH_TOKEN" in line


def test_another_version_of_ray_is_named(cluster):
    from ray.experimental import internal_kv

    address, key = cluster.ray.get_runtime_context().gcs_address, b"CLUSTER_METADATA"
    kept = internal_kv._internal_kv_get(key, namespace=b"cluster")
    changed = json.dumps(json.loads(kept) | {"ray_version": "2.0.0"}).encode()
    internal_kv._internal_kv_put(key, changed, overwrite=True, namespace=b"cluster")
    try:
        line = connect(address)
    finally:
        internal_kv._internal_kv_put(key, kept, overwrite=True, namespace=b"cluster")
    assert f"ConfigError: --address {address}: Version mismatch" in line and "Ray: 2.0.0" in line


@pytest.mark.parametrize("address", ["nowhere", "ray://a:1", "a:b", "127.0.0.1:99999999"])
def test_a_bad_address_is_one_line(address):
    expected = rf"^--address {address}: must be auto .* or HOST:PORT$"
    with pytest.raises(ConfigError, match=expected), cluster_ray(address):
        raise AssertionError


def test_nothing_there_is_one_line():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
        line = connect(address)
    assert f"ConfigError: --address {address}: [Errno 111] Connection refused; " in line
