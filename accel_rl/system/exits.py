"""User code that ends the process, such as a factory that calls `sys.exit(0)`, is an error instead of a silent end."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def no_exit(error: Callable[[str], Exception]) -> Iterator[None]:
    """Return a context manager in which `sys.exit` and `os._exit` raise `error` with a description of the call.
    Processes that are forked within the context can exit."""
    pid, leave = os.getpid(), os._exit
    call = "sys.exit"

    def refuse(status: int) -> NoReturn:
        nonlocal call
        if os.getpid() != pid:
            leave(status)
        call = "os._exit"
        raise SystemExit(status)

    os._exit = refuse
    try:
        yield
    except SystemExit as e:
        raise error(f"its code called {call}({e.code!r})") from e
    finally:
        os._exit = leave
