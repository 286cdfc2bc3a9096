"""A replayed update repeats the Python values that its capture read, so this module records the values and detects
changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from accel_rl.algos.algorithm import Algorithm

_NUMBERS = (bool, int, float, str, type(None))


class Reads:
    """`Reads` has the attributes of an algorithm that an update has read, with the values that were read."""

    def __init__(self, algo: Algorithm):
        self._algo = algo
        self._values: dict[str, Any] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Return a context manager that records every attribute of the algorithm that is read."""
        algo = self._algo
        cls = type(self._algo)
        values = self._values

        def read(instance: Any, name: str) -> Any:
            value = object.__getattribute__(instance, name)
            if name in object.__getattribute__(instance, "__dict__"):
                values.setdefault(name, value)
            return value

        make_class: Any = type(cls)
        algo.__class__ = make_class(cls.__name__, (cls,), {"__getattribute__": read})
        try:
            yield
        finally:
            algo.__class__ = cls

    def changed(self) -> str:
        """Return the name of an attribute whose value has changed, or "" if no value has changed."""
        now = vars(self._algo)
        for name, value in self._values.items():
            current = now.get(name)
            if current is not value and not (isinstance(value, _NUMBERS) and current == value):
                return name
        return ""

    def restore(self) -> None:
        """Reset the algorithm's attributes to the values that the update has read."""
        vars(self._algo).update(self._values)


def numbers_of(algo: Algorithm) -> dict[str, Any]:
    """Return the plain numbers among the attributes of the agent and of its network's modules, by name."""
    model: nn.Module = algo.agent.model
    owners: list[tuple[str, object]] = [(type(algo.agent).__name__, algo.agent)]
    owners += [(f"{type(m).__name__} {name}".strip(), m) for name, m in model.named_modules()]
    return {
        f"{owner}.{name}": value
        for owner, thing in owners
        for name, value in vars(thing).items()
        if isinstance(value, _NUMBERS)
    }
