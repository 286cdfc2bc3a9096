"""One command qualifies a GPU by its tests, acting, training, replays, kernels, and Pong.

    | python -m benchmarks.gpu                            # all parts, each in a process of its own
    | python -m benchmarks.gpu --minutes 9 --rest         # where a command may take 10 minutes: repeat it
    | python -m benchmarks.gpu --simulated --tiny         # tries the command itself, without a GPU

The command needs torch, numpy and ale-py, and writes gpu-NAME.json and gpu-NAME.md.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accel_rl.models.precision import multiply_in
from accel_rl.system import child
from accel_rl.system.errors import ConfigError, RunError
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.checks import build_extensions, missing_extensions
from benchmarks.gpu.options import Options, parse
from benchmarks.gpu.parts import LONGEST, PARTS
from benchmarks.gpu.results import Results, section
from benchmarks.gpu.sizes import FULL, TINY


def measure(o: Options, name: str, results: Results) -> None:
    """Measure a part of the benchmark in this process, and add its result; a failure is recorded as one line."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(o.device, TINY if o.tiny else FULL, Path(folder), o.seconds_of(name))
        multiply_in("float32", o.device)
        try:
            result = PARTS[name].measure(bench)
        except Exception as e:  # After the failure of a part, the other parts continue.
            result = Result((), error=f"{type(e).__name__}: {' '.join(str(e).split())[:500]}")
    results.put(name, result.to_dict(), time.monotonic() - begin, o.command(name))


def measure_apart(o: Options, name: str, results: Results) -> None:
    """Measure a part of the benchmark in a separate process, so that a crash or a GPU's error ends only this part."""
    results.drop(name)
    given = ["--part", name, "--processes", "one", "--out", str(o.out)]
    given += ["--simulated"] if o.simulated else ["--device", o.device]
    given += ["--tiny"] * o.tiny + ["--seconds", str(o.seconds_of(name))]
    begin, why = time.monotonic(), ""
    try:
        code = subprocess.run(
            child.command("benchmarks.gpu", *given),
            env=child.environment(packages=["benchmarks"]),
            stdout=subprocess.DEVNULL,
            timeout=LONGEST,
        ).returncode
        why = f"its process ended with code {code}"
    except subprocess.TimeoutExpired:
        why = f"it took longer than {LONGEST:.0f} s"
    if name not in results.parts():
        results.put(name, Result((), error=why).to_dict(), time.monotonic() - begin, o.command(name))


def run(o: Options) -> int:
    """Run the parts of the benchmark, and return the exit code, which is 1 if any part failed."""
    if o.build:
        build_extensions()
    if not o.is_child and (line := missing_extensions()):
        print(line, file=sys.stderr, flush=True)
    results, begin = Results(o.out, o.device), time.monotonic()
    before, left, failed = results.parts(), [], []
    for name in o.parts:
        if o.rest and name in before and not before[name].get("error"):
            continue
        if o.minutes is not None and time.monotonic() - begin + o.seconds_of(name) > 60 * o.minutes:
            left.append(name)
            continue
        print(f"{name}: {PARTS[name].does} ({o.seconds_of(name):.0f} s)", file=sys.stderr, flush=True)
        (measure_apart if o.separate else measure)(o, name, results)
        result = results.parts()[name]
        print("\n".join(section(name, result)), flush=True)
        failed += [name] if result.get("error") else []
    print(f"written: {results.json} and {results.page}")
    if left:
        print(f"left out, no time: {' '.join(left)}; run: python -m benchmarks.gpu --part {' '.join(left)}")
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
