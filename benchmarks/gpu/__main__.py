"""Runs all tests that need a GPU, and measures acting, training, replays and kernels on the GPU.

    | python -m benchmarks.gpu                            # all parts, each in a process of its own
    | python -m benchmarks.gpu --minutes 9                # where a command may take 10 minutes: repeat it
    | python -m benchmarks.gpu --simulated --tiny         # tries the command itself, without a GPU

The command needs torch, numpy, psutil and ale-py, and writes gpu-NAME/PART.json and gpu-NAME.md. A repeated command
skips the parts that have a result of the same command and commit, and runs failed parts last.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from accel_rl.models.precision import multiply_in
from accel_rl.processes import child
from accel_rl.text.errors import ConfigError, RunError
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.checks import build_extensions, missing_extensions
from benchmarks.gpu.guarded import guarded
from benchmarks.gpu.options import Options, parse
from benchmarks.gpu.parts import PARTS, limit_s
from benchmarks.gpu.results import Results, section
from benchmarks.gpu.sizes import FULL, TINY


def measure(o: Options, name: str, results: Results) -> None:
    """Measure a part of the benchmark in this process. The result is written after each measurement. An error is
    recorded as one line."""
    begin, last = time.monotonic(), Result(())

    def save(result: Result, finished: bool = False) -> None:
        nonlocal last
        last = result
        results.put(name, result.to_dict(), time.monotonic() - begin, o.command(name), finished)

    with tempfile.TemporaryDirectory() as folder:
        sizes = TINY if o.tiny else FULL
        bench = Bench(o.device, sizes, Path(folder), o.seconds_of(name), save, o.games)
        multiply_in("float32", o.device)
        save(last)
        try:
            result = PARTS[name].measure(bench)
        except Exception as e:  # The other parts of the benchmark continue after an error.
            result = replace(last, error=f"{type(e).__name__}: {' '.join(str(e).split())[:500]}")
    save(result, finished=True)


def measure_apart(o: Options, name: str, results: Results) -> None:
    """Measure a part of the benchmark in a separate process, so that other parts are measured even if this part
    crashes, fails on the GPU or never ends."""
    given = ["--part", name, "--processes", "one", "--out", str(o.out), "--games", o.games]
    given += ["--simulated"] if o.simulated else ["--device", o.device]
    given += ["--tiny"] * o.tiny + ["--seconds", str(o.seconds_of(name))]
    begin, limit = time.monotonic(), limit_s(o.seconds_of(name))
    results.put(name, Result(()).to_dict(), 0.0, o.command(name), finished=False)
    command, variables = child.command("benchmarks.gpu", *given), child.environment(packages=["benchmarks"])
    with guarded(command, variables, stdout=subprocess.DEVNULL) as process:
        try:
            why = f"its process ended with code {process.wait(limit)}"
        except subprocess.TimeoutExpired:
            why = f"killed after {limit:.0f} s"
    so_far = results.part(name)
    if not so_far["finished"]:
        results.put(name, so_far | {"error": why}, time.monotonic() - begin, o.command(name))


def run(o: Options) -> int:
    """Run the parts of the benchmark that have no result, and return the exit code, which is 1 if any part failed."""
    if o.build:
        build_extensions()
    if not o.is_child and (line := missing_extensions()):
        print(line, file=sys.stderr, flush=True)
    results, begin = Results(o.out, o.device), time.monotonic()
    states = {name: results.state(name, o.command(name)) for name in o.parts}
    if done := [name for name, state in states.items() if state == "finished"]:
        print(f"measured before: {' '.join(done)}; delete their files in {results.folder} to repeat them")
    left, failed = [], []
    for name in sorted((n for n in o.parts if n not in done), key=lambda n: states[n] == "failed"):
        if o.minutes is not None and time.monotonic() - begin + o.seconds_of(name) > 60 * o.minutes:
            left.append(name)
            continue
        print(f"{name}: {PARTS[name].does} ({o.seconds_of(name):.0f} s)", file=sys.stderr, flush=True)
        (measure_apart if o.separate else measure)(o, name, results)
        result = results.part(name)
        print("\n".join(section(name, result)), flush=True)
        failed += [name] if result["error"] else []
    print(f"written: {results.folder} and {results.page}")
    if left:
        print(f"left out, no time: {' '.join(left)}; repeat the command to measure them")
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def main(argv: list[str]) -> int:
    try:
        o = parse(argv)
        return 0 if o is None else run(o)
    except (ConfigError, RunError) as e:
        print(f"benchmarks.gpu: {e}", file=sys.stderr)
        return 2 if isinstance(e, ConfigError) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
