"""A Ray cluster of several nodes on this machine, for tests and trials."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from accel_rl.gorila.session import LOOPBACK, session
from accel_rl.gorila.watcher import marked

START_S = 60  # time in which a node must have joined


class LocalCluster:
    """Nodes with object stores and processes of their own. Node 0 is the head, to which this process is connected."""

    def __init__(self, ray: Any, folder: str, cpus: int, object_store_bytes: int):
        self.ray = ray
        self._folder, self._cpus, self._object_store_bytes = folder, cpus, object_store_bytes
        self._nodes: list[Any] = [ray._private.worker.global_worker.node]

    def node_id(self, i: int) -> str:
        """Return Ray's name of a node, for `NodeAffinitySchedulingStrategy`."""
        return str(self._nodes[i].node_id)

    def add_node(self) -> int:
        """Start a node and wait until it has joined; returns its index."""
        private = self.ray._private
        with marked(self._folder):
            node = private.node.Node(
                private.parameter.RayParams(
                    gcs_address=self._nodes[0].gcs_address,
                    num_cpus=self._cpus,
                    num_gpus=0,
                    object_store_memory=self._object_store_bytes,
                    node_ip_address=LOOPBACK,
                    min_worker_port=0,
                    max_worker_port=0,
                    dashboard_agent_listen_port=None,
                    include_log_monitor=False,
                ),
                head=False,
                shutdown_at_exit=False,
                spawn_reaper=True,
            )
        self._nodes.append(node)
        private.services.wait_for_node(node.gcs_address, node.plasma_store_socket_name, START_S)
        return len(self._nodes) - 1

    def pids(self, i: int) -> list[int]:
        """Return all processes of a node, those of its actors included."""
        found: list[int] = []
        for raylet in self._raylets(i):
            with suppress(psutil.Error):  # it has ended
                process = psutil.Process(raylet.pid)
                found += [p.pid for p in (process, *process.children(recursive=True))]
        return found

    def _raylets(self, i: int) -> list[Any]:
        return [info.process for info in self._nodes[i].all_processes.get("raylet", ())]

    def kill_node(self, i: int) -> None:
        """End all processes of a node at once, as if its machine had lost its power. Not node 0."""
        if i == 0:
            raise ValueError("node 0 is this process's own")
        for pid in self.pids(i):
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
        self._nodes[i].kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


@contextmanager
def local_cluster(nodes: int = 3, cpus: int = 2, object_store_bytes: int = 80 << 20) -> Iterator[LocalCluster]:
    """Start several nodes on loopback and yield them; end them afterwards. ConfigError, RunError.

    cpus, object_store_bytes: of each node. See `local_ray`, whose confinement and watcher hold here too.
    """
    with session(cpus, object_store_bytes) as (ray, folder):
        cluster = LocalCluster(ray, folder, cpus, object_store_bytes)
        try:
            for _ in range(nodes - 1):
                cluster.add_node()
            yield cluster
        finally:
            ray.shutdown()  # first: it would report each node as lost
            for i in range(1, len(cluster._nodes)):
                cluster.kill_node(i)
