"""Users can replace built-in engines, gradient exchanges and schedules by their own classes, which settings name as
`module:Class`."""

from collections.abc import Callable
from typing import Any

from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.samplers.engine import Engine, EngineSetup
from accel_rl.settings.registry import find
from accel_rl.text.errors import ConfigError, nearest

ENGINES = ("workers", "in-process", "device")
UPDATES = ("all-reduce", "async")
SCHEDULES = ("lockstep", "concurrent")
ENGINE_METHODS = sorted(name for name in vars(Engine) if not name.startswith("_"))
SCHEDULE_METHODS = ("acting_age", "close", "cycle", "load_state_dict", "pending", "state_dict")


def find_engine(name: str) -> Callable[[EngineSetup], Engine]:
    """The in-process engine, or a user's engine `module:Class`. Raises ConfigError."""
    if name == "in-process":
        from accel_rl.samplers.in_process import InProcessEngine

        return InProcessEngine
    return _with_methods("--sampler.engine", name, ENGINE_METHODS, "an Engine (accel_rl/samplers/engine.py)")


def find_gradient_sync(name: str) -> type[Any]:
    """A user's GradientSync class, which is called with (flat, algo, communicator). Raises ConfigError."""
    result = _class("--update", name)
    if not issubclass(result, GradientSync):
        raise ConfigError(f"--update {name}: it is not a subclass of accel_rl.distributed.gradient_sync.GradientSync")
    return result


def find_schedule(name: str) -> type[Any]:
    """A user's schedule class, which is called with the arguments of `Lockstep`. Raises ConfigError."""
    return _with_methods("--schedule", name, SCHEDULE_METHODS, "a Schedule (accel_rl/training/schedule.py)")


def check_doors(engine: str, update: str, schedule: str) -> None:
    """Raise ConfigError for a name that is neither a built-in choice nor a suitable class of the user."""
    if _names_class("--sampler.engine", engine, ENGINES):
        find_engine(engine)
    if _names_class("--update", update, UPDATES):
        find_gradient_sync(update)
    if _names_class("--schedule", schedule, SCHEDULES):
        find_schedule(schedule)


def _names_class(flag: str, name: str, choices: tuple[str, ...]) -> bool:
    """Raises ConfigError if the setting names neither a class nor one of the choices."""
    if name in choices:
        return False
    if ":" not in name:
        allowed = f"{', '.join(choices)} or module:Class"
        raise ConfigError(f"{flag} {name!r}: must be one of {allowed}{nearest(name, choices)}")
    return True


def _class(flag: str, name: str) -> type[Any]:
    result = find(name, flag)
    if not isinstance(result, type):
        raise ConfigError(f"{flag} {name}: it is not a class")
    return result


def _with_methods(flag: str, name: str, methods: Any, what: str) -> type[Any]:
    result = _class(flag, name)
    missing = [m for m in methods if not hasattr(result, m)]
    if missing:
        raise ConfigError(f"{flag} {name}: it is not {what}: it has no {', '.join(missing)}")
    return result
