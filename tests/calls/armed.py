"""python -m tests.calls.armed FAULT SHIM COUNTERS FOLDER KIND NTH FOR_EVER ERROR HOW WORDS...

Run accel-rl with a failing system call (see `arm` in shim.c), and join the process's threads at the end. FAULT is the
name of a fault of planted.py that is planted into accel_rl, or empty.
"""

import contextlib
import ctypes
import mmap
import sys


def main(words: list[str]) -> None:
    fault, shim, counters, folder, *numbers = words[:9]
    with open(counters, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))

    from accel_rl.cli.main import main

    with contextlib.ExitStack() as stack:
        if fault:
            from tests.calls.planted import planted

            stack.enter_context(planted(fault))
        ctypes.CDLL(shim).arm(address, folder.encode(), *map(int, numbers))
        try:
            code = main(words[9:])
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
    ctypes.pythonapi.Py_Exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
