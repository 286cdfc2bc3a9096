"""A call of torch's store blocks for ever if the network connection to the store's host fails. `PatientStore` limits
the time of each call."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from accel_rl.text.errors import RunError

Result = TypeVar("Result")


class PatientStore:
    """Wraps torch's key-value store, through which ranks find each other. Each call raises RunError if
    the store's process has ended, or if the store does not answer within `timeout_s` seconds."""

    def __init__(self, store: Any, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s

    def set(self, key: str, value: str) -> None:
        self._call(lambda: self._store.set(key, value))

    def get(self, key: str) -> str:
        """Wait until a key is set, at most for the timeout of torch's store, and return its value."""
        waits_s: float = self._store.timeout.total_seconds()
        return self._call(lambda: self._store.get(key).decode(), waits_s)

    def check(self, key: str) -> bool:
        """Whether a key is set."""
        return self._call(lambda: bool(self._store.check([key])))

    def add(self, key: str, n: int) -> int:
        """Add to a counter, and return its new value."""
        return self._call(lambda: int(self._store.add(key, n)))

    def wait(self, keys: list[str], seconds: float) -> None:
        """Wait until all keys are set. Raises RunError if a key is not set after `seconds`."""
        self._call(lambda: self._store.wait(keys, timedelta(seconds=seconds)), seconds)

    def _call(self, call: Callable[[], Result], waits_s: float = 0.0) -> Result:
        """Run `call` in a thread, and return its result. A working store may need up to `waits_s` seconds for the
        call."""
        results: list[Result] = []
        errors: list[RuntimeError] = []

        def run() -> None:
            try:
                results.append(call())
            except RuntimeError as e:
                errors.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(waits_s + self._timeout_s)
        if errors:
            raise RunError(f"the ranks' store is gone ({' '.join(str(errors[0]).split())[:200]})") from errors[0]
        if not results:
            raise RunError(f"the ranks' store has not answered for {self._timeout_s:g} s")
        return results[0]
