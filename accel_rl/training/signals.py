"""Ctrl-C, SIGTERM and SIGHUP (a closed terminal) request that a run stops after saving a checkpoint. A second Ctrl-C
stops the process immediately."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from accel_rl.processes.child import STOP_SIGNALS
from accel_rl.processes.process import obey_stop, stop_obeyed


class Stopped(BaseException):
    """Raised at a stop signal within `StopRequest.ends_wait`."""


class StopRequest:
    """A context manager whose truth value becomes true when the process receives a stop signal. Outside the main
    thread, a StopRequest catches no signals. Under nohup, SIGHUP is ignored. A nested StopRequest is true if the outer
    StopRequest is true."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._interrupted = False
        self._raises = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for s in STOP_SIGNALS:
                if s == signal.SIGHUP and signal.getsignal(s) is signal.SIG_IGN:
                    continue
                self._before[s] = before = signal.signal(s, self._handle)
                outer = getattr(before, "__self__", None)
                if isinstance(outer, StopRequest):
                    self.signal, self._interrupted = outer.signal, outer._interrupted
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for s, handler in self._before.items():
            signal.signal(s, handler)  # type: ignore[arg-type]
        stop_obeyed(self)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.signal = self.signal or signal.Signals(number)
        obey_stop(self)
        if self._raises:
            raise Stopped

    @contextmanager
    def ends_wait(self) -> Iterator[None]:
        """A context in which a stop signal raises `Stopped`, because the process waits and has nothing to save."""
        self._raises = True
        try:
            if self:
                raise Stopped
            yield
        finally:
            self._raises = False

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal is not None else 0
