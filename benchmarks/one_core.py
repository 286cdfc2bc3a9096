"""Emulation on a single core, without inference: the reference lines of Stooke & Abbeel 2018, figure 2.

process        one process on the core                                     (the paper's dashed line)
hyperthreads   a process on each of the core's two hyperthreads, together  (its dotted line)
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from accel_rl.system import hardware
from accel_rl.system.hardware import say_once, usable_cores
from benchmarks.bare import Bare
from benchmarks.interleave import Bar, interleave


def measure(
    env: dict[str, Any], threads: Sequence[int], seconds: float, repeats: int, bar: Bar
) -> dict[str, list[float]]:
    """Measure env steps/s of one core: {"process": [repeats], "hyperthreads": [repeats]}.

    A core with one hyperthread has no "hyperthreads"."""
    processes = {"process": list(threads[:1])}
    if len(threads) > 1:
        processes["hyperthreads"] = list(threads)
    with ExitStack() as stack:
        bare = {name: stack.enter_context(closing(Bare(env, cores))) for name, cores in processes.items()}
        parts = {name: lambda b=b: b.measure(seconds, "environment_only") for name, b in bare.items()}
        return interleave(parts, repeats, bar, "one core, no inference: ")


def first_core() -> tuple[int, ...]:
    """Return the hyperthreads of the first usable core, that core first. Prints a line if there is only one."""
    core = min(usable_cores())
    threads = (core, *(t for t in hardware.hyperthreads(core) if t != core))
    if len(threads) == 1:
        say_once(f"core {threads[0]} has no second hyperthread: figure 2's dotted line is left out")
    return threads
