"""Faults that are planted into accel_rl, and which the trials of tests/calls must find."""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest import mock

from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.text import errors


def _ignoring(error: type[Exception], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        with suppress(error):
            return function(*args, **options)

    return call


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "unwritten": (checkpoint, "write_synced", _ignoring(OSError, checkpoint.write_synced)),
    "unsaved": (Checkpoints, "save", _ignoring(errors.RunError, Checkpoints.save)),
    "unreported": (errors, "REPORTED", {*errors.REPORTED} - {errno.ENOSPC}),
}
"""Planted faults. unwritten: errors of writing a checkpoint's files are ignored; unsaved: errors of saving a checkpoint
are ignored; unreported: a full disk gives a traceback."""


def planted(name: str) -> AbstractContextManager[Any]:
    """Return a context manager in which the fault is planted into accel_rl."""
    return mock.patch.object(*FAULTS[name])
