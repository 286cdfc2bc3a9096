"""A Ray cluster of several nodes on this machine. Tests can kill nodes of the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from accel_rl.gorila.ray_session import LOOPBACK, local_ray, marked

NODE_S = 60  # A node must join the cluster within NODE_S seconds.


class LocalCluster:
    """A Ray cluster of several nodes on one machine. Each node has its own object store and processes.

    The process that creates the cluster is connected to node 0, the head.
    """

    def __init__(self, ray: Any, cpus: int, object_store_bytes: int):
        self.ray = ray
        self._cpus = cpus
        self._object_store_bytes = object_store_bytes
        self._nodes: list[Any] = [ray._private.worker.global_worker.node]
        self._folder = str(Path(self._nodes[0].get_session_dir_path()).parent)

    def node_id(self, i: int) -> str:
        """Return the id of node `i`, as `NodeAffinitySchedulingStrategy` expects it."""
        return str(self._nodes[i].node_id)

    def add_node(self) -> int:
        """Start a node, wait until the node has joined the cluster, and return its index."""
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
        private.services.wait_for_node(node.gcs_address, node.plasma_store_socket_name, NODE_S)
        return len(self._nodes) - 1

    def pids(self, i: int) -> list[int]:
        """Return the process ids of node `i`: its raylet and all of the raylet's child processes, including actors."""
        result: list[int] = []
        for raylet in self._raylets(i):
            with suppress(psutil.Error):
                process = psutil.Process(raylet.pid)
                result += [p.pid for p in (process, *process.children(recursive=True))]
        return result

    def _raylets(self, i: int) -> list[Any]:
        return [info.process for info in self._nodes[i].all_processes.get("raylet", ())]

    def kill_node(self, i: int) -> None:
        """Kill all processes of node `i`, as if its machine had lost power. Raises ValueError for node 0."""
        if i == 0:
            raise ValueError("node 0 is this process's own")
        for pid in self.pids(i):
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
        self._nodes[i].kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


@contextmanager
def local_cluster(nodes: int = 3, cpus: int = 2, object_store_bytes: int = 80 << 20) -> Iterator[LocalCluster]:
    """Context manager that starts a cluster of `nodes` nodes on loopback, and stops all nodes at its end. Each node has
    `cpus` CPUs and an object store of `object_store_bytes`."""
    with local_ray(cpus, object_store_bytes) as ray:
        cluster = LocalCluster(ray, cpus, object_store_bytes)
        try:
            for _ in range(nodes - 1):
                cluster.add_node()
            yield cluster
        finally:
            ray.shutdown()  # Shut Ray down first: Ray reports nodes that are killed before its shutdown.
            for i in range(1, len(cluster._nodes)):
                cluster.kill_node(i)
