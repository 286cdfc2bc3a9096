"""Simulated actors of the library Ray, which may be killed before or after they execute a call."""

import copy
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.schedules.world import Actor, World


class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass


class RayActorError(RayError):
    pass


class RayTaskError(RayError):
    pass


class SimulatedActor:
    """A simulated Ray actor with one thread, which executes the calls of each caller in the order of the calls."""

    def __init__(self, ray: "SimulatedRay", name: str, thing: Any) -> None:
        self._world, self.thing = ray.world, thing
        self._calls: dict[Actor, deque[tuple[Reference, str, tuple[Any, ...]]]] = {}
        self.actor = ray.world.spawn(name, self._work)

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._send(method, arguments))

    @property
    def is_dead(self) -> bool:
        return self.actor.is_killed

    def _send(self, method: str, arguments: tuple[Any, ...]) -> "Reference":
        # As in Ray, arguments are copied before the call returns.
        reference, copied = Reference(self), copy.deepcopy(arguments)
        self._world.point()
        self._calls.setdefault(self._world.current, deque()).append((reference, method, copied))
        return reference

    def _work(self) -> None:
        while True:
            self._world.block(lambda: any(self._calls.values()))
            calls = self._world.rng.choice([queue for queue in self._calls.values() if queue])
            reference, method, arguments = calls.popleft()
            result = getattr(self.thing, method)(*arguments)
            self._world.point()  # The actor may be killed before it answers.
            reference.result, reference.is_done = result, True


class Reference:
    """The future result of a call of an actor, in place of Ray's ObjectRef."""

    def __init__(self, actor: SimulatedActor) -> None:
        self.actor, self.is_done, self.result = actor, False, None

    @property
    def is_over(self) -> bool:
        return self.is_done or self.actor.is_dead


class SimulatedRay:
    """Replaces the functions of Ray that Gorila's driver, learners and members call."""

    exceptions = SimpleNamespace(
        RayError=RayError, GetTimeoutError=GetTimeoutError, RayActorError=RayActorError, RayTaskError=RayTaskError
    )

    def __init__(self, world: World, make: Callable[..., Any]) -> None:
        """`make(*arguments)` builds the object whose methods an actor executes."""
        self.world, self._make = world, make
        self.actors = dict[str, SimulatedActor]()

    def start(self, ray: Any, cls: type, name: str, *arguments: Any, **options: Any) -> SimulatedActor:
        """Start an actor, as `ray_session.start_named` does."""
        self.actors[name] = SimulatedActor(self, name, self._make(*arguments))
        return self.actors[name]

    def get_actor(self, name: str, namespace: str = "") -> SimulatedActor:
        if name not in self.actors or self.actors[name].is_dead:
            raise ValueError(f"no actor {name}")
        return self.actors[name]

    def get(self, reference: Reference, timeout: float | None = None) -> Any:
        if not self.world.block(lambda: reference.is_over, timeout):
            raise GetTimeoutError
        if not reference.is_done:
            raise RayActorError("gone")
        return reference.result

    def wait(self, references: list[Reference], timeout: float) -> tuple[list[Reference], list[Reference]]:
        self.world.point()
        return [r for r in references if r.is_over], []

    def kill(self, actor: SimulatedActor) -> None:
        self.world.kill(actor.actor)
