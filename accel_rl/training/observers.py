"""The observers of a run are its callbacks and its sinks.

The command line and config.json name an observer by its class, `module:Class`, with arguments if needed:
`StopAtScore(score=18)`. In Python, an observer may also be an object; `spec_of` returns the text that describes the
object, if one exists.
"""

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.metrics.sinks import Row, Sink
from accel_rl.settings.registry import find
from accel_rl.settings.resolved import Resolved
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError
from accel_rl.text.imports import parse_call
from accel_rl.text.notes import say_once
from accel_rl.training.callback import Callback, check_methods, failed

BUILT_IN = {
    name: f"accel_rl.api.callbacks:{name}" for name in ("StopAtScore", "SaveBest", "VideoEvery", "WandbArtifacts")
}
"""Maps the names of the callbacks of accel_rl.api.callbacks, which users may give without the module, to full names."""
BUILT_IN_SINKS = {"MLflow": "accel_rl.metrics.mlflow:MLflow"}
KINDS: tuple[tuple[str, type[Any]], ...] = (("callback", Callback), ("sink", Sink))
"""Pairs of (setting, base class of the objects that the setting names)."""


@dataclass(frozen=True, slots=True)
class Observers:
    callbacks: tuple[Callback, ...] = ()
    sinks: tuple[Sink, ...] = ()

    @classmethod
    def of(cls, config: Resolved) -> "Observers":
        """Raises ConfigError."""
        return cls(
            tuple(_built("callback", text, Callback) for text in config.callback),
            tuple(_built("sink", text, Sink) for text in config.sink),
        )


NO_OBSERVERS = Observers()


def check(config: Resolved) -> None:
    """Raise ConfigError, with a message of one line, if a named callback or sink cannot be built."""
    for kind, base in KINDS:
        for text in getattr(config, kind):
            built, arguments = _parsed(kind, text, base)
            _check_arguments(kind, text, built, arguments)
            if dataclasses.is_dataclass(built):  # Other classes are built later, as they may open files.
                _built(kind, text, base)
            if issubclass(built, Callback):
                check_methods(built, config.mode.has_members)
            built.check_settings(config)


def _built(kind: str, text: str, base: type[Any]) -> Any:
    built, arguments = _parsed(kind, text, base)
    _check_arguments(kind, text, built, arguments)
    try:
        return built(**arguments)
    except Exception as e:
        raise ConfigError(f"--{kind} {text}: {type(e).__name__}: {e}") from e


def _parsed(kind: str, text: str, base: type[Any]) -> tuple[type[Any], dict[str, Any]]:
    """(class, arguments) of `module:Class(name=value)`, whose values are Python literals. Raises ConfigError."""
    flag = f"--{kind} {text}"
    name, arguments = parse_call(text, f"--{kind}", "module:Class")
    built_in = BUILT_IN if kind == "callback" else BUILT_IN_SINKS
    if ":" not in name and name not in built_in:
        raise ConfigError(f"{flag}: must be {', '.join(built_in)} or module:Class")
    result = find(built_in.get(name, name), f"--{kind}")
    if not (isinstance(result, type) and issubclass(result, base)):
        raise ConfigError(f"{flag}: it is not a subclass of accel_rl.{base.__name__}")
    return result, arguments


def _check_arguments(kind: str, text: str, built: type[Any], arguments: dict[str, Any]) -> None:
    try:
        inspect.signature(built).bind(**arguments)
    except TypeError as e:
        raise ConfigError(f"--{kind} {text}: {e}; it has {inspect.signature(built)}") from e


def named(kind: str, base: type[Any], objects: Iterable[Any]) -> tuple[list[Any], list[str | None]]:
    """The objects of `callbacks=[...]` or `sinks=[...]`, and the text of each, or None for an object without a text. An
    item is an object of the class `base`, a subclass of `base`, or a text that names one. Raises ConfigError for an
    item of any other type."""
    result: list[Any] = []
    for item in objects:
        if isinstance(item, str):
            result.append(_built(kind, item, base))
        elif isinstance(item, type) and issubclass(item, base):
            _check_arguments(kind, item.__name__, item, {})
            result.append(item())
        elif isinstance(item, base):
            result.append(item)
        else:
            raise ConfigError(f"{kind}s has {item!r}: it is not a {base.__name__}, its class or its name")
    texts = [item if isinstance(item, str) else spec_of(x) for item, x in zip(objects, result, strict=True)]
    return result, texts


def spec_of(thing: Any) -> str | None:
    """The text from which other processes build an equal object. An object has a text if its class is defined at the
    top level of a module, and is either a dataclass whose fields are Python literals, or a class without `__init__` and
    attributes."""
    cls = type(thing)
    module = importlib.import_module(cls.__module__)
    if cls.__module__ == "__main__" or getattr(module, cls.__qualname__, None) is not cls:
        return None
    name = f"{cls.__module__}:{cls.__qualname__}"
    name = next((short for short, long in BUILT_IN.items() if long == name), name)
    if not dataclasses.is_dataclass(cls):
        return name if cls.__init__ is object.__init__ and not vars(thing) else None
    values = {f.name: getattr(thing, f.name) for f in dataclasses.fields(cls) if f.init}
    if not all(map(_is_plain, values.values())):
        return None
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"{name}({text})" if text else name


def _is_plain(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (SyntaxError, ValueError):
        return False


def with_observers(
    config: TrainConfig, callbacks: Iterable[Any], sinks: Iterable[Any]
) -> tuple[TrainConfig, Observers]:
    """The settings, to which the texts of all given callbacks and sinks are added. Raises ConfigError."""
    callback_objects, callback_texts = _of_kind("callback", Callback, config, callbacks)
    sink_objects, sink_texts = _of_kind("sink", Sink, config, sinks)
    config = dataclasses.replace(config, callback=callback_texts, sink=sink_texts)
    return config, Observers(callback_objects, sink_objects)


def _of_kind(kind: str, base: type[Any], config: TrainConfig, given: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    objects, texts = named(kind, base, [*getattr(config, kind), *_listed(kind, base, given)])
    for thing, text in zip(objects, texts, strict=True):
        _check_process(config, kind, thing, text)
    return tuple(objects), tuple(text for text in texts if text is not None)


def _listed(kind: str, base: type[Any], given: Any) -> list[Any]:
    if isinstance(given, str | type | base):
        raise ConfigError(f"{kind}s={given!r}: must be a list, each a {base.__name__}, its class or its name")
    return list(given)


def _check_process(config: TrainConfig, kind: str, thing: Any, text: str | None) -> None:
    """Raise ConfigError for an object that no text describes (`spec_of`) in a run whose ranks are other processes. If
    the run has one process, print that the object must be given again when the run is resumed."""
    name = type(thing).__name__
    if isinstance(thing, Callback):
        check_methods(type(thing), config.mode.has_members)
    if text is not None:
        return
    if config.mode.has_ranks:
        raise ConfigError(
            f"{kind} {name}: rank 0 is another process and cannot receive this object; define its class at the top of "
            "a module, as a dataclass of plain values"
        )
    say_once(f"{kind} {name} is not recorded in config.json: give it again to resume the run")


class UserSink(Sink):
    """A user's sink, whose errors name the sink and the method."""

    def __init__(self, sink: Sink):
        self._sink = sink

    def open(self, settings: dict[str, Any], folder: Path, env_steps: int) -> None:
        self._call("open", settings, folder, env_steps)

    def write(self, row: Row) -> None:
        self._call("write", dict(row))

    def event(self, line: str) -> None:
        self._call("event", line)

    def close(self) -> None:
        self._call("close")

    def _call(self, method: str, *args: Any) -> None:
        try:
            getattr(self._sink, method)(*args)
        except Exception as error:
            raise failed(f"sink {type(self._sink).__name__}.{method}", error) from error
