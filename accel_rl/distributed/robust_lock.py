"""This module implements locks in shared memory by pthread robust mutexes, which the kernel releases if their owner
dies."""

import ctypes
import errno
import sys
import time

import numpy as np

from accel_rl.text.errors import ConfigError, RunError

LOCK_BYTES = 64  # A cache line for each lock: pthread_mutex_t has 40 bytes on x86-64 and 48 on aarch64.
_SHARED = 1
_ROBUST = 1
_ATTRIBUTES_BYTES = 64


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def supported() -> bool:
    """Whether the operating system supports robust mutexes between processes, as only Linux does."""
    return sys.platform == "linux"


class RobustLocks:
    """k locks in a shared array [k, LOCK_BYTES] uint8. With `create`, the locks are initialised;
    exactly one process must pass `create`, before any other process uses the array."""

    def __init__(self, memory: np.ndarray, create: bool = False):
        if not supported():
            raise ConfigError("locks that survive their owner need Linux")
        assert memory.dtype == np.uint8 and memory.shape[1:] == (LOCK_BYTES,)
        self._memory, self._libc = memory, ctypes.CDLL(None)
        base = memory.ctypes.data
        self._addresses = [ctypes.c_void_p(base + i * LOCK_BYTES) for i in range(len(memory))]
        if create:
            attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
            self._call("pthread_mutexattr_init", attributes)
            self._call("pthread_mutexattr_setpshared", attributes, _SHARED)
            self._call("pthread_mutexattr_setrobust", attributes, _ROBUST)
            for address in self._addresses:
                self._call("pthread_mutex_init", address, attributes)

    def _call(self, name: str, *args: object) -> None:
        if code := getattr(self._libc, name)(*args):
            raise OSError(code, name)

    def try_acquire(self, i: int) -> bool:
        """Try to acquire lock i, and return whether the lock was acquired. A lock whose owner died can be acquired."""
        return self._taken(i, self._libc.pthread_mutex_trylock(self._addresses[i]))

    def acquire(self, i: int, timeout_s: float) -> None:
        """Acquire lock i. Raises RunError if a living owner holds the lock for longer than timeout_s."""
        left = timeout_s
        while True:
            wait = min(1.0, left)  # Each wait is short, because the realtime clock may jump.
            until = time.time_ns() + int(wait * 1e9)
            limit = _Timespec(until // 10**9, until % 10**9)
            if self._taken(i, self._libc.pthread_mutex_timedlock(self._addresses[i], ctypes.byref(limit))):
                return
            left -= wait
            if left <= 0:
                raise RunError(f"the lock of chunk {i} was not free within {timeout_s:g} s: its owner lives but hangs")

    def _taken(self, i: int, code: int) -> bool:
        if code == 0:
            return True
        if code == errno.EOWNERDEAD:  # The lock's owner died, but the locked chunk is always consistent.
            self._call("pthread_mutex_consistent", self._addresses[i])
            return True
        if code in (errno.EBUSY, errno.ETIMEDOUT):
            return False
        raise OSError(code, f"lock {i}")

    def release(self, i: int) -> None:
        self._call("pthread_mutex_unlock", self._addresses[i])
