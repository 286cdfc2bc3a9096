"""Simulated event file descriptors, sockets, polls, processes and words of shared memory, in place of the system's."""

import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from accel_rl.machine.memory_order import OrderedWords
from tests.schedules.world import Actor, View, World

READABLE = 1


def replaced(*changes: tuple[Any, str, Any]) -> ExitStack:
    """Return a context manager in which the attributes (object, name, value) are replaced."""
    stack = ExitStack()
    for owner, name, value in changes:
        stack.enter_context(mock.patch.object(owner, name, value))
    return stack


class System:
    """The file descriptors, processes and clock of a simulated machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files: dict[int, Any] = {}
        self.processes: list[SimulatedProcess] = []
        self.time = SimpleNamespace(monotonic=world.monotonic, sleep=world.sleep)
        self.os = SimpleNamespace(sched_yield=world.point)
        self.select = SimpleNamespace(poll=lambda: SimulatedPoll(self), POLLIN=READABLE)

    def descriptor(self, file: Any) -> int:
        """Return a new file descriptor for a file."""
        fd = 1_000 + len(self.files)
        self.files[fd] = file
        return fd

    def event(self, fds: tuple[int, int] | None = None) -> "SimulatedEvent":
        """Return a new event, or the existing event with the file descriptors `fds`."""
        return SimulatedEvent(self) if fds is None else self.files[fds[0]]

    def cells(self, array: np.ndarray) -> "Cells | OrderedWords":
        """Return the words of an integer array in shared memory, as `channel._cells` does."""
        words = Cells(self.world, array.__array_interface__["data"][0])
        return OrderedWords(words, self.world.fence) if self.world.weak else words


class Cells:
    """Words of simulated shared memory. Each word is identified by its address."""

    def __init__(self, world: World, address: int) -> None:
        self._world, self._address = world, address

    def __getitem__(self, i: int) -> int:
        return self._world.load(self._address + 8 * i)

    def __setitem__(self, i: int, value: int) -> None:
        self._world.store(self._address + 8 * i, value)


class SimulatedEvent:
    """An eventfd."""

    def __init__(self, system: System) -> None:
        self._world = system.world
        self.read_fd = self.write_fd = system.descriptor(self)
        self.fds = (self.read_fd, self.read_fd)
        self.readable = False
        self._view: View = {}

    def set(self) -> None:
        self._world.point()
        self._world.pass_on(self._view)
        self.readable = True

    def clear(self) -> None:
        self._world.point()
        self.readable = False
        self._world.receive(self._view)

    def close(self) -> None:
        pass


class SimulatedPoll:
    """select.poll"""

    def __init__(self, system: System) -> None:
        self._system, self._fds = system, dict[int, Any]()

    def register(self, fd: int, mask: int = READABLE) -> None:
        self._fds[fd] = self._system.files[fd]

    def unregister(self, fd: int) -> None:
        del self._fds[fd]

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        world = self._system.world
        world.block(self._any, None if milliseconds is None else milliseconds / 1e3)
        return [(fd, READABLE) for fd, file in self._fds.items() if file.readable]

    def _any(self) -> bool:
        return any(file.readable for file in self._fds.values())


class SimulatedSocket:
    """One end of a simulated socket pair, with the methods that the class Control calls."""

    def __init__(self, system: System) -> None:
        self._world = system.world
        self._fd = system.descriptor(self)
        self.other: SimulatedSocket
        self._received = bytearray()
        self._view: View = {}
        self.is_closed = False
        self._timeout: float | None = None

    @property
    def readable(self) -> bool:
        return bool(self._received) or self.other.is_closed

    def fileno(self) -> int:
        return self._fd

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def sendall(self, data: bytes) -> None:
        self._world.point()
        if self.other.is_closed:
            raise BrokenPipeError
        self._world.pass_on(self.other._view)
        self.other._received += data

    def recv(self, size: int) -> bytes:
        if not self._world.block(lambda: self.readable, self._timeout):
            raise TimeoutError
        self._world.receive(self._view)
        part = bytes(self._received[:size])
        del self._received[:size]
        return part

    def close(self) -> None:
        self.is_closed = True


def socket_pair(system: System) -> tuple[SimulatedSocket, SimulatedSocket]:
    """Return two connected sockets."""
    a, b = SimulatedSocket(system), SimulatedSocket(system)
    a.other, b.other = b, a
    return a, b


class SimulatedProcess:
    """A simulated process with the methods of subprocess.Popen that WorkerProcess calls. The end of the process closes
    its socket."""

    def __init__(self, system: System, name: str, function: Callable[[], Any], socket: SimulatedSocket) -> None:
        self._world, self._socket = system.world, socket
        self.actor: Actor = system.world.spawn(name, self._run)
        self._function = function
        self.pid = 10_000 + len(system.processes)
        self.returncode: int | None = None
        system.processes.append(self)

    def _run(self) -> None:
        try:
            self._function()
        except Exception:
            self._end(1)
            raise
        self._end(0)

    def _end(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self._socket.is_closed = True

    def kill(self) -> None:
        if self.returncode is None:
            self._world.kill(self.actor)
            self._end(-9)

    def wait(self, timeout: float | None = None) -> int:
        if not self._world.block(lambda: self.returncode is not None, timeout):
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode
