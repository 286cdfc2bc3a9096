"""A simulated machine with virtual time, and with memory that is as weakly ordered as that of aarch64 processors.

An actor is a simulated process or thread. One actor runs at a time. At each `World.point` (a load, a store, a wait or a
message) the scheduler chooses which actor continues, and may kill or freeze an actor. The seed determines all choices
of the scheduler, so that a simulation can be repeated.

Each cell (word of shared memory) has a list of all values that were stored. An actor's view contains, for each cell,
the position of the oldest value that the actor may still read. A plain load may return the oldest value that is
allowed, or any newer value, so that an actor may see the stores of different cells out of order. Fences, events and
messages pass the view of one actor to another. If `weak` is false, every load is an acquire and every store is a
release, as on x86-64.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from greenlet import getcurrent, greenlet

TICK_S = 1e-5
"""Virtual seconds between two points at which the scheduler chooses an actor."""
View = dict[Any, int]


class Hang(Exception):
    """Raised if no actor can continue, or if actors continue without end."""


class Race(Exception):
    """Raised if an actor reads data that another actor's store may not have reached yet."""


class Ended(BaseException):
    """Raised in an actor when the simulation is over."""


class Actor:
    """A simulated process or thread, which runs as a greenlet."""

    def __init__(self, world: "World", name: str, function: Callable[[], Any]) -> None:
        self.world, self.name = world, name
        self.greenlet = greenlet(self._run, parent=world.hub)
        self.function = function
        self.is_over = self.is_killed = False
        self.frozen_until = 0.0
        self.ready: Callable[[], bool] | None = None
        """Condition for which the actor waits, or None."""
        self.deadline = float("inf")
        self.priority = world.rng.random()
        self.error: BaseException | None = None
        self.result: Any = None
        self.view: View = {}
        """Maps each cell to the position of the oldest value that the actor may read."""
        self.read: View = {}
        """The views of values from plain loads, which the next fence adds to `view`."""
        self.released: View = {}
        """The view at the last fence, which plain stores pass to other actors."""

    def _run(self) -> None:
        try:
            self.result = self.function()
        except Ended:
            pass
        except BaseException as e:
            self.error = e
        self.is_over = True

    @property
    def can_run(self) -> bool:
        """Return whether the scheduler may continue the actor."""
        if self.is_over or self.is_killed or self.frozen_until > self.world.now:
            return False
        return self.ready is None or self.deadline <= self.world.now or self.ready()


class World:
    """Runs actors (simulated processes and threads) in an order that the seed determines."""

    def __init__(self, seed: object, weak: bool = False, limit: int = 100_000) -> None:
        """A simulation with more than `limit` scheduling points raises Hang."""
        self.rng = random.Random(f"{seed}")
        self.weak, self.limit = weak, limit
        self.now, self.points = 0.0, 0
        self.actors: list[Actor] = []
        self.on_point: Callable[[], None] = lambda: None
        """A function that is called at each point, to inject faults."""
        self.hub = getcurrent()
        """The scheduler's greenlet, in which the world was made."""
        self.is_over = False
        self._stored: dict[Any, list[tuple[Any, View]]] = {}
        # Half of the seeds switch between actors rarely, because some faults occur only if one actor runs long.
        self._switch = self.rng.choice((0.5, 0.2, 0.05, 0.02))
        self._by_priority = self.rng.random() < 0.5

    # Scheduling

    @property
    def current(self) -> Actor:
        """Return the running actor."""
        return getcurrent().actor

    def spawn(self, name: str, function: Callable[[], Any]) -> Actor:
        """Add an actor, which runs `function`."""
        actor = Actor(self, name, function)
        actor.greenlet.actor = actor
        self.actors.append(actor)
        return actor

    def point(self) -> None:
        """Let the scheduler choose which actor continues."""
        self._tick()
        if self.is_over:
            raise Ended
        actor = self.current
        if self.rng.random() < self._switch or actor.is_killed or actor.frozen_until > self.now:
            self.hub.switch()
            if self.is_over:
                raise Ended

    def block(self, ready: Callable[[], bool], seconds: float | None = None) -> bool:
        """Let the current actor wait until `ready()` is true, or for some virtual seconds. Return the last value of
        `ready()`."""
        actor = self.current
        self._tick()
        actor.ready = ready
        actor.deadline = float("inf") if seconds is None else self.now + seconds
        self.hub.switch()
        actor.ready = None
        if self.is_over:
            raise Ended
        return ready()

    def sleep(self, seconds: float) -> None:
        """Let the current actor wait for a number of virtual seconds."""
        self.block(lambda: False, seconds)

    def monotonic(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    def _tick(self) -> None:
        self.points += 1
        self.now += TICK_S
        if self.points > self.limit:
            raise Hang(f"no end after {self.limit} points")
        self.on_point()

    def run(self, main: Actor) -> None:
        """Run all actors until `main` is over. Raises the exception that `main` raised, or Hang."""
        try:
            while not main.is_over:
                actor = self._choose()
                actor.greenlet.switch()
        finally:
            self.is_over = True
            for actor in self.actors:
                while actor.greenlet:  # A greenlet is true if it has begun and not ended.
                    actor.greenlet.throw(Ended)
        if main.error is not None:
            raise main.error

    def _choose(self) -> Actor:
        while not (able := [actor for actor in self.actors if actor.can_run]):
            waiting = [a for a in self.actors if not a.is_over and not a.is_killed]
            times = [t for a in waiting for t in (a.deadline, a.frozen_until) if self.now < t < float("inf")]
            if not times:
                raise Hang("all wait: " + ", ".join(a.name for a in waiting))
            self.now = min(times)
        if self._by_priority:
            if self.rng.random() < 0.05:
                self.rng.choice(able).priority = self.rng.random()
            # Other actors also run, because the one with the highest priority may poll for a value that they store.
            return max(able, key=lambda a: a.priority) if self.rng.random() < 0.8 else self.rng.choice(able)
        return self.rng.choice(able)

    @staticmethod
    def check(actors: Iterable[Actor]) -> None:
        """Raise the first error of an actor."""
        for actor in actors:
            if actor.error is not None:
                raise actor.error

    def kill(self, actor: Actor) -> None:
        """End an actor at its current point, as SIGKILL does."""
        actor.is_killed = True

    # Memory

    def load(self, cell: Any, initial: Any = 0) -> Any:
        """Return one of the stored values of a word that the current actor may read."""
        self.point()
        stored = self._stored.get(cell)
        if not stored:
            return initial
        actor, last = self.current, len(stored)
        position = actor.view.get(cell, 0)
        if self.weak and position < last and self.rng.random() < 0.3:
            position = self.rng.randint(position, last)
        else:
            position = last
        actor.view[cell] = position
        if position == 0:
            return initial
        value, view = stored[position - 1]
        _join(actor.read if self.weak else actor.view, view)
        return value

    def store(self, cell: Any, value: Any) -> None:
        """Store a value in a cell."""
        self.point()
        actor, stored = self.current, self._stored.setdefault(cell, [])
        actor.view[cell] = len(stored) + 1
        view = {**(actor.released if self.weak else actor.view), cell: len(stored) + 1}
        stored.append((value, view))

    def fence(self) -> None:
        """Order all earlier loads and stores of the current actor before all its later loads and stores."""
        actor = self.current
        _join(actor.view, actor.read)
        actor.read = {}
        actor.released = dict(actor.view)

    def pass_on(self, view: View) -> None:
        """Make all stores that the current actor sees visible in `view`, as a system call that wakes another process
        does."""
        self.fence()
        _join(view, self.current.view)

    def receive(self, view: View) -> None:
        """Make all stores in `view` visible to the current actor."""
        _join(self.current.view, view)
        self.current.released = dict(self.current.view)

    # Shared data that is not read word by word, such as the frames of an env step.

    def written(self, name: Any) -> None:
        """Record that the current actor has written the shared data `name`."""
        self.point()
        stored = self._stored.setdefault(name, [])
        stored.append((None, {}))
        self.current.view[name] = len(stored)

    def check_read(self, name: Any) -> None:
        """Raise Race if the current actor may not see the newest write of the shared data `name`."""
        last = len(self._stored.get(name, ()))
        if self.current.view.get(name, 0) < last:
            raise Race(f"{self.current.name} reads {name}, which may be stale")


def _join(view: View, other: View) -> None:
    for cell, position in other.items():
        if view.get(cell, 0) < position:
            view[cell] = position
