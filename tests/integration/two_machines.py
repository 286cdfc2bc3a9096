"""Two machines, as far as processes can tell: network and process namespaces of their own, joined by a virtual cable.

Shared memory of one cannot be opened by the other. Needs the right to make namespaces.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

ADDRESSES = ("10.77.0.1", "10.77.0.2")
CABLE = "acrl0"  # the network interface of both


class Machine:
    """A network namespace, held by a process that sleeps."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
        own = os.stat("/proc/self/ns/net").st_ino
        deadline = time.monotonic() + 5
        while os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino == own:
            if self.holder.poll() is not None or time.monotonic() > deadline:
                raise OSError("no network namespace")
            time.sleep(0.01)

    def inside(self, command: Sequence[object]) -> list[str]:
        """Return the command that runs a command on this machine."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", *map(str, command)]

    def start(self, command: Sequence[object], **kwargs) -> subprocess.Popen:
        """Start a command with a process tree of its own. All its processes end with it."""
        apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *command]
        return subprocess.Popen(self.inside(apart), **kwargs)


@contextmanager
def two_machines() -> Iterator[list[Machine]]:
    """Yield two machines that reach each other at `ADDRESSES`. OSError where that is not allowed."""
    machines: list[Machine] = []
    try:
        if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
            raise OSError("unshare, nsenter or ip is missing")
        for _ in ADDRESSES:
            machines.append(Machine())
        a, b = machines
        ip(a, "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", b.holder.pid)
        for machine, address in zip(machines, ADDRESSES, strict=True):
            ip(machine, "addr", "add", f"{address}/24", "dev", CABLE)
            ip(machine, "link", "set", CABLE, "up")
            ip(machine, "link", "set", "lo", "up")
        yield machines
    finally:
        for machine in machines:
            machine.holder.kill()
            machine.holder.wait()


def ip(machine: Machine, *args: object) -> None:
    done = subprocess.run(machine.inside(["ip", *args]), capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr)
