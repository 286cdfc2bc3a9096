"""A benchmark program parses its options, measures, prints a table, and writes JSON.

Benchmark.main(argv) --> Options --> cases --> for each case: build its variants, measure them in turns, close them
                                           --> medians, ratios to the subject, derived figures --> table, JSON
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from accel_rl.machine.hardware import allowed_cores, cgroup_cpus, cpu_name
from accel_rl.parsing.arguments import parse
from accel_rl.run.run_folder import versions
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError, RunError, nearest
from benchmarks.harness.table import table
from benchmarks.harness.turns import Measure, Measurements, in_turns, medians, ratio


@dataclass(frozen=True)
class Options:
    """The options of every benchmark with alternating measurements. With --tiny, the class attribute `TINY` replaces
    default values."""

    seconds: float = 2.0
    """Minimum length of one measurement in seconds."""
    repeats: Count = 5
    """Number of measurements of each variant, made in turns; medians are reported."""
    tiny: bool = False
    """Use the smallest sizes and one short turn, to test the command itself."""
    json: str = ""
    """Write all results also to the given JSON file."""

    TINY: ClassVar[dict[str, Any]] = {}

    def check(self) -> None:
        if self.repeats < 1:
            raise ConfigError(f"--repeats {self.repeats}: must be at least 1")
        if not 0 < self.seconds < math.inf:
            raise ConfigError(f"--seconds {self.seconds:g}: must be above 0 and finite")

    def at_least(self, least: int, *names: str) -> None:
        """Raise ConfigError if one of the options `names` is below `least`."""
        for name in names:
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            if any(v < least for v in values):
                text = " ".join(map(str, values))
                raise ConfigError(f"--{name.replace('_', '-')} {text}: must be at least {least}")

    def one_of(self, name: str, allowed: Sequence[str]) -> None:
        """Raise ConfigError if a value of the option `name` is not in `allowed`."""
        value = getattr(self, name)
        one_of(name, value if isinstance(value, tuple) else (value,), allowed)


def one_of(name: str, values: Iterable[str], allowed: Iterable[str]) -> None:
    for value in values:
        if value not in (names := list(allowed)):
            text = f"must be one of {', '.join(names)}{nearest(value, names)}"
            raise ConfigError(f"--{name.replace('_', '-')} {value}: {text}")


Chosen = TypeVar("Chosen", bound=Options)
CaseResult = dict[str, Any]
Columns = dict[str, dict[str, Any]]
"""Additional columns of a table, {column: {variant: value}}."""


@dataclass
class Case:
    """A workload, of which several variants are measured in turns."""

    labels: dict[str, Any]
    """Labels that distinguish the case from other cases, such as {"game": "pong"}. The labels of cases are columns of
    the table."""
    variants: dict[str, Measure]
    subject: str = ""
    """Variant whose rate is divided by the rates of the other variants in the table, by default the first variant."""
    compared: bool = True
    """Whether ratios between the variants of the case are meaningful."""
    derive: Callable[[Measurements], Measurements] = lambda m: {}
    """Function that computes additional series from the measurements, such as an upper bound, with one value per
    turn."""
    columns: Callable[[Measurements], Columns] = lambda m: {}
    """Function that computes additional columns of the benchmark's table."""
    figures: Callable[[Measurements], dict[str, Any]] = lambda m: {}
    """Function that computes additional results of the case for the JSON file."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Variants of the case that could not be built, with the reason."""

    def measure(
        self,
        seconds: float,
        repeats: int,
        unit: str,
        label: str = "",
        time_s: float = float("inf"),
        after: Callable[[CaseResult], object] = lambda result: None,
    ) -> CaseResult:
        """Measure the variants in turns, and return their measurements, medians and ratios. After each measurement,
        `after` is called with the results so far."""
        label += "".join(f"{value}, " for value in self.labels.values())
        so_far = lambda measurements: after(self._so_far(measurements))  # noqa: E731
        measurements = in_turns(self.variants, seconds, repeats, unit, label, time_s, so_far)
        measurements |= self.derive(measurements)
        subject = self.subject or next(iter(measurements))
        others = {name: values for name, values in measurements.items() if name != subject and self.compared}
        return self._so_far(measurements) | {
            "subject": subject,
            "ratios": {name: ratio(measurements[subject], values) for name, values in others.items()},
            "columns": self.columns(measurements),
            **self.figures(measurements),
        }

    def _so_far(self, measurements: Measurements) -> CaseResult:
        return {
            **self.labels,
            "labels": list(self.labels),
            "subject": self.subject,
            "measurements": measurements,
            "median": medians(measurements),
            "ratios": {},
            "columns": {},
            "left_out": self.left_out,
        }


Build = Callable[[ExitStack], Case]
"""A function that builds and warms up a `Case`, and adds to the ExitStack what is to be closed after its
measurement."""


@dataclass(frozen=True)
class Benchmark(Generic[Chosen]):
    """A benchmark program. `cases` returns one function per case, which builds the case. `lines` returns the text after
    the table."""

    name: str
    doc: str | None
    options: type[Chosen]
    cases: Callable[[Chosen], list[Build]]
    unit: str = "env steps/s"
    lines: Callable[[Chosen, dict[str, Any]], list[str]] = lambda o, result: []

    def main(self, argv: list[str]) -> int:
        """Run the benchmark, and return the exit code."""
        return program(f"benchmarks.{self.name}", self.doc, self.options, argv, self.measure, self.report)

    def measure(self, o: Chosen) -> dict[str, Any]:
        """Build and measure all cases of the benchmark. If a case raises RunError, the error is recorded, and the next
        case is measured."""
        results, wrong, builds = [], [], self.cases(o)
        for i, build in enumerate(builds):
            try:
                with ExitStack() as stack:
                    label = f"case {i + 1} of {len(builds)}, "
                    results.append(build(stack).measure(o.seconds, o.repeats, self.unit, label))
            except RunError as e:
                wrong.append(str(e))
        return {"results": results, "wrong": wrong}

    def report(self, o: Chosen, result: dict[str, Any]) -> list[str]:
        """Return a description of the machine and the table of results, as lines of text."""
        m = machine()
        head = f"{m['cpu']}, {len(m['cores'])} cores, {m['date']}; medians of {o.repeats} turns"
        wrong = [f"wrong: {line}" for line in result["wrong"]]
        return [head, "", *table(*rates(result["results"], self.unit)), *self.lines(o, result), *wrong]


def rates(results: list[CaseResult], unit: str) -> tuple[list[str], list[list[Any]]]:
    """Return (columns, rows) of a table with one row per variant of each case: the median rate, the subject's rate
    divided by this rate, and additional columns."""
    labels = list(dict.fromkeys(label for r in results for label in r["labels"]))
    more = list(dict.fromkeys(column for r in results for column in r["columns"]))
    subjects = list(dict.fromkeys(r["subject"] for r in results if r["ratios"]))
    over = [f"{subjects[0] if len(subjects) == 1 else 'the first'} / it", "by turn"] if subjects else []
    rows = []
    for r in results:
        for name, median in r["median"].items():
            row = [*(r.get(label) for label in labels), name, median]
            if over:
                q = r["ratios"].get(name)
                row += [q["of_medians"], f"{q['least']:.2f} to {q['most']:.2f}"] if q else [None, None]
            rows.append(row + [r["columns"].get(column, {}).get(name) for column in more])
    return [*labels, "variant", unit, *over, *more], rows


class Checked(Protocol):
    json: str

    def check(self) -> None: ...


Settings = TypeVar("Settings", bound=Checked)


def program(
    name: str,
    doc: str | None,
    options: type[Settings],
    argv: list[str],
    measure: Callable[[Settings], dict[str, Any]],
    report: Callable[[Settings, dict[str, Any]], list[str]],
) -> int:
    """Run a benchmark program, the module `name`. `options` is a dataclass with a method `check` and a field `json`
    (the path of the file for the results, or ""). Return the exit code: 2 for an impossible option (ConfigError of
    `check` or `measure`), 1 for a RunError or a result with entries in `wrong`."""
    try:
        tiny: Any = getattr(options, "TINY", {}) if "--tiny" in argv else {}
        defaults = options(**{"seconds": 0.02, "repeats": 1, "tiny": True, **tiny}) if tiny else None
        o: Any = parse(options, argv, f"python -m {name}", doc or "", defaults)
        o.check()
        if o.json and not (folder := Path(o.json).absolute().parent).is_dir():
            raise ConfigError(f"--json {o.json}: there is no folder {folder}")
        if o.json and Path(o.json).is_dir():
            raise ConfigError(f"--json {o.json}: is a folder, and must be a file")
        result = measure(o)
    except (ConfigError, RunError) as e:
        print(f"{name}: {e}", file=sys.stderr)
        return 2 if isinstance(e, ConfigError) else 1
    print("\n".join(report(o, result)))
    if o.json:
        command = " ".join(["python -m", name, *argv])
        content = {"command": command, "options": asdict(o), "machine": machine(), **result}
        Path(o.json).write_text(json.dumps(content, indent=1) + "\n")
    return 1 if result.get("wrong") else 0


def machine() -> dict[str, Any]:
    """Return a description of the machine: processor, usable cores, load, date and versions."""
    return {
        "cpu": cpu_name(), "cores": allowed_cores(), "cgroup_cpus": cgroup_cpus(), "load": os.getloadavg(),
        "date": time.strftime("%Y-%m-%d"), "versions": versions(),
    }  # fmt: skip
