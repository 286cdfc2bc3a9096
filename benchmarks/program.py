"""The command of a benchmark: parse and check settings, measure, print the report, write the JSON."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from accel_rl.system.errors import ConfigError, RunError
from benchmarks.machine import machine

Settings = TypeVar("Settings")


def program(
    module: str,
    doc: str | None,
    options: type[Settings],
    argv: list[str],
    check: Callable[[Settings], None],
    measure: Callable[[Settings], dict[str, Any]],
    report: Callable[[Settings, dict[str, Any]], list[str]],
) -> int:
    """Run a benchmark. options: a dataclass with `json`, the file of the result, or "".

    Returns the exit code: 2 for an impossible setting (ConfigError of `check` or `measure`), 1 for a RunError or
    a result with entries in `wrong`."""
    from accel_rl.config.arguments import parse  # needs tyro, which `benchmarks.gpu` does without

    try:
        o = parse(options, argv, f"python -m benchmarks.{module}", doc or "")
        to: str = o.json  # type: ignore[attr-defined]
        check(o)
        if to and not Path(to).absolute().parent.is_dir():
            raise ConfigError(f"--json {to}: there is no folder {Path(to).absolute().parent}")
        result = measure(o)
    except (ConfigError, RunError) as e:
        print(f"benchmarks.{module}: {e}", file=sys.stderr)
        return 2 if isinstance(e, ConfigError) else 1
    print("\n".join(report(o, result)))
    if to:
        whole = {"options": asdict(o), "machine": machine(), **result}  # type: ignore[call-overload]
        Path(to).write_text(json.dumps(whole, indent=1) + "\n")
    return 1 if result.get("wrong") else 0
