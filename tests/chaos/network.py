"""A network of simulated hosts on one machine: network namespaces, joined by a router that delays and loses packets.

The router is a Python program that needs only /dev/net/tun and root: not all kernels have `tc netem`.
"""

import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_DESTINATION = slice(16, 20)
"""Position of the destination address in an IPv4 header. The last byte of the address is the number of the host plus
1."""


class Network:
    """Hosts 10.78.0.1, 10.78.0.2, ..., each a network namespace with one interface."""

    def __init__(self, n_hosts: int, seed: int = 0) -> None:
        self.delay_s, self.loss = 0.0, 0.0
        """Delay of each packet in seconds, and the probability that a packet is lost."""
        self.cut: set[int] = set()
        """Numbers of the hosts whose packets the router drops."""
        self.packets, self.n_hosts = 0, n_hosts
        self._rng = random.Random(seed)
        self._holders: list[subprocess.Popen] = []
        self._tuns: list[int] = []
        self._closing = threading.Event()
        for i in range(n_hosts):
            self._add(i)
        self._router = threading.Thread(target=self._route, name="router", daemon=True)
        self._router.start()

    @staticmethod
    def address(host: int) -> str:
        """Return the IP address of a host."""
        return f"10.78.0.{host + 1}"

    def inside(self, host: int) -> list[str]:
        """Return the command that runs its arguments on a host."""
        return ["nsenter", "--target", str(self._holders[host].pid), "--net", "--uts"]

    def close(self) -> None:
        """End the hosts."""
        self._closing.set()
        self._router.join()
        for tun in self._tuns:
            os.close(tun)
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _add(self, host: int) -> None:
        name = f"chaos{os.getpid() % 100_000}-{host}"
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._tuns.append(tun)
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        holder = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"])
        self._holders.append(holder)
        deadline = time.monotonic() + 10
        while os.stat(f"/proc/{holder.pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            if holder.poll() is not None or time.monotonic() > deadline:
                raise OSError("no network namespace")
            time.sleep(0.01)
        _run("ip", "link", "set", name, "netns", str(holder.pid))
        inside = self.inside(host)
        _run(*inside, "ip", "addr", "add", f"{self.address(host)}/24", "dev", name)
        _run(*inside, "ip", "link", "set", name, "mtu", "9000", "up")
        _run(*inside, "ip", "link", "set", "lo", "up")
        _run(*inside, "hostname", f"host-{host}")

    def _route(self) -> None:
        """Move packets between the hosts until the network is closed."""
        waiting: list[tuple[float, int, int, bytes]] = []
        poll = select.poll()
        for tun in self._tuns:
            poll.register(tun, select.POLLIN)
        sources = {tun: host for host, tun in enumerate(self._tuns)}
        while not self._closing.is_set():
            wait_s = min(0.1, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.1
            for tun, _ in poll.poll(wait_s * 1e3):
                packet = os.read(tun, 65_536)
                host = packet[_DESTINATION][3] - 1 if packet[0] >> 4 == 4 else -1
                if not 0 <= host < len(self._tuns) or self._rng.random() < self.loss:
                    continue
                if sources[tun] in self.cut or host in self.cut:
                    continue
                self.packets += 1
                heapq.heappush(waiting, (time.monotonic() + self.delay_s, self.packets, host, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, host, packet = heapq.heappop(waiting)
                # If the interface's queue is full, the packet is lost, as on a real network.
                with suppress(BlockingIOError):
                    os.write(self._tuns[host], packet)


@contextmanager
def network(n_hosts: int, seed: int = 0) -> Iterator[Network]:
    """Yield a network of hosts. The hosts' processes must end before the network is closed."""
    result = Network(n_hosts, seed)
    try:
        yield result
    finally:
        result.close()


def can_make_networks() -> str:
    """Return the reason why this machine cannot simulate a network of hosts, or ""."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun is missing"
    missing = [name for name in ("ip", "unshare", "nsenter", "hostname") if shutil.which(name) is None]
    return f"{missing[0]} is not installed" if missing else ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def torchrun(net: Network, host: int, ranks: int) -> Sequence[str]:
    """Return the command that runs its arguments as ranks of a host under torchrun."""
    return [
        *(*net.inside(host), sys.executable, "-m", "torch.distributed.run", "--nnodes", str(net.n_hosts)),
        *("--nproc-per-node", str(ranks), "--node-rank", str(host), "--master-addr", net.address(0)),
        *("--master-port", "29500", "--monitor-interval", "0.2", "--no-python"),
    ]
