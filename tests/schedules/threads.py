"""Simulated threads, locks, events and futures of one process, in place of Python's."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from tests.schedules.world import Actor, View, World


class Threads:
    """Replaces the modules `threading` and `concurrent.futures` by simulated threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.threading = SimpleNamespace(Lock=self.lock, Event=self.flag)

    def lock(self) -> "SimulatedLock":
        return SimulatedLock(self._world)

    def flag(self) -> "SimulatedFlag":
        return SimulatedFlag(self._world)

    def pool(
        self, n: int, name: str = "thread", initializer: Callable[..., Any] | None = None, arguments: Sequence[Any] = ()
    ) -> "SimulatedPool":
        """Return an executor with one simulated thread. `initializer`, which would pin a real thread to a core, is not
        called."""
        assert n == 1
        return SimulatedPool(self._world, name)

    def wait(self, futures: Iterable["SimulatedFuture"], seconds: float | None = None) -> None:
        """Wait until all futures are done, or for a number of virtual seconds."""
        every = list(futures)
        self._world.block(lambda: all(future.is_done for future in every), seconds)


class SimulatedLock:
    """threading.Lock"""

    def __init__(self, world: World) -> None:
        self._world, self._view = world, dict[Any, int]()
        self._owner: Actor | None = None

    def __enter__(self) -> None:
        while not self._world.block(lambda: self._owner is None):
            pass
        self._owner = self._world.current
        self._world.receive(self._view)

    def __exit__(self, *_: object) -> None:
        self._owner = None
        if not self._world.is_over:
            self._world.pass_on(self._view)
            self._world.point()


class SimulatedFlag:
    """threading.Event"""

    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False
        self._view: View = {}

    def set(self) -> None:
        self._world.point()
        self._world.pass_on(self._view)
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        self._world.point()
        if self._is_set:
            self._world.receive(self._view)
        return self._is_set


class SimulatedFuture:
    """concurrent.futures.Future"""

    def __init__(self, world: World) -> None:
        self._world, self._view = world, dict[Any, int]()
        self._callbacks: list[Callable[[SimulatedFuture], None]] = []
        self._result: Any = None
        self._error: BaseException | None = None
        self.is_done = False

    def run(self, call: Callable[[], Any]) -> None:
        """Call a function in the current simulated thread."""
        try:
            self._result = call()
        except Exception as e:
            self._error = e
        self._world.pass_on(self._view)
        self.is_done = True
        for callback in self._callbacks:
            callback(self)

    def done(self) -> bool:
        self._world.point()
        if self.is_done:
            self._world.receive(self._view)
        return self.is_done

    def exception(self) -> BaseException | None:
        self._wait()
        return self._error

    def result(self) -> Any:
        self._wait()
        if self._error is not None:
            raise self._error
        return self._result

    def add_done_callback(self, callback: "Callable[[SimulatedFuture], None]") -> None:
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _wait(self) -> None:
        while not self.is_done:
            self._world.block(lambda: self.is_done)
        self._world.receive(self._view)


class SimulatedPool:
    """concurrent.futures.ThreadPoolExecutor with one thread."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._view = world, dict[Any, int]()
        self._tasks: deque[tuple[SimulatedFuture, Callable[[], Any]]] = deque()
        self._is_closed = False
        self._actor = world.spawn(name, self._work)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> SimulatedFuture:
        future = SimulatedFuture(self._world)
        self._world.point()
        self._world.pass_on(self._view)
        self._tasks.append((future, lambda: function(*arguments)))
        return future

    def shutdown(self) -> None:
        self._is_closed = True
        self._world.block(lambda: self._actor.is_over)

    def _work(self) -> None:
        while True:
            self._world.block(lambda: bool(self._tasks) or self._is_closed)
            if not self._tasks:
                return
            future, call = self._tasks.popleft()
            self._world.receive(self._view)
            future.run(call)
