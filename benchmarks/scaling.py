"""Throughput against the number of ranks, synchronous and asynchronous: Tables 1, 2 and 3 of Stooke & Abbeel 2018.

    1  sampling speed with A3C-Net by total simulator count, in thousands of samples/s: all ranks synchronize every five
       steps (sync), or never (async)
    2  hours to complete 50 million steps: A2C and A3C with 16 environments a rank, PPO and APPO with 8
    3  the same for DQN-512 (also asynchronous), epsilon-Rainbow-512 and CAT-DQN-2048, after the random actions that
       fill the replay. Both are smaller than the paper's 50,000 steps (--fill)

A cell also holds env steps/s, and the shares of a rank's time that gradient synchronization and waiting for locks take.
Ranks share the machine's cores (and --gpus) evenly. A case that does not end is reported, and the others continue.

    python -m benchmarks.scaling --tables 1 2 3 --ranks 1 2 4 8 --json OUT
"""

import sys
import time
from typing import Any

from accel_rl.system.errors import RunError
from accel_rl.system.process import before_torch
from benchmarks.program import program
from benchmarks.scaling_report import report
from benchmarks.scaling_sampling import sample
from benchmarks.scaling_settings import RUNS, Options, check
from benchmarks.scaling_training import train


def cases(o: Options) -> dict[tuple[int, str, str], Any]:
    """{(table, row, column): function that measures it}. Columns: sync, async (Table 1) or numbers of ranks."""
    found: dict[tuple[int, str, str], Any] = {}
    for table in o.tables:
        if table == 1:
            for n in o.simulators:
                for column in ("sync", "async"):
                    found[1, str(n), column] = lambda n=n, c=column: sample(o, n, max(o.ranks), c == "sync")
            continue
        for name, (experiment, is_async) in RUNS[table].items():
            for ranks in o.ranks if not o.only or name in o.only else ():
                if ranks > 1 or not is_async:  # as in the paper, no asynchronous run has one rank
                    found[table, name, str(ranks)] = lambda e=experiment, r=ranks, a=is_async: train(o, e, r, a)
    return found


def run(o: Options) -> dict[str, Any]:
    measurements: dict[str, list[dict[str, Any]]] = {}
    wrong = []
    for turn in range(o.repeats):
        for case, measure in cases(o).items():
            began, name = time.monotonic(), "/".join(map(str, case))
            try:
                found = measure()
                said = f"{found['steps_per_s']:,.1f} env steps/s"
            except RunError as e:
                found, said = {"failed": str(e)}, str(e)
                wrong.append(f"{name}: {e}")
            measurements.setdefault(name, []).append(found)
            line = f"  {turn + 1}/{o.repeats}  table {' '.join(map(str, case))}: {said}"
            print(f"{line} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return {"results": measurements, "wrong": wrong}


def main(argv: list[str]) -> int:
    before_torch()
    return program("scaling", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
