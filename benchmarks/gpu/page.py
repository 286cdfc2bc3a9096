"""The page of results: machine, goals, and a table of each part."""

from typing import Any

from benchmarks.gpu.parts import PARTS


def page(whole: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    gpu, machine, parts = whole["gpu"], whole["machine"], whole["parts"]
    facts = {
        "GPU": gpu["name"],
        "its memory": f"{gpu['memory_gib']} GiB" if gpu["memory_gib"] else "-",
        "compute capability": gpu["capability"] or "-",
        "CUDA, cuDNN": f"{gpu['cuda']}, {gpu['cudnn']}",
        "CPU": machine["cpu"],
        "cores": str(len(machine["cores"])),
        "cgroup's cores": str(machine["cgroup_cpus"] or "no limit"),
        "versions": ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if v),
    }
    lines = [
        f"# GPU: {gpu['name']}",
        "",
        "Written by `python -m benchmarks.gpu`. Medians of measurements in turns.",
        "",
    ]
    if gpu["name"] == "simulated":
        lines += ["The device is simulated: no figure on this page says anything about speed.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    goals = [goal for name in PARTS if name in parts for goal in parts[name].get("goals", [])]
    if goals:
        lines += ["## Goals", "", *table(["goal", "measured", "bound", "met"], [goal_row(g) for g in goals]), ""]
    for name, part in PARTS.items():
        if name in parts:
            lines += section(name, part.does, parts[name])
    return "\n".join(lines)


def section(name: str, does: str, result: dict[str, Any]) -> list[str]:
    about = f"{does[0].upper()}{does[1:]}. `{result['command']}`, {result['date']}, {result['seconds']:,.0f} s."
    lines = [f"## {name}", "", about, ""]
    if result.get("error"):
        lines += [f"Failed: {result['error']}", ""]
    if result.get("rows"):
        lines += [*table(result["columns"], [[cell(x) for x in row] for row in result["rows"]]), ""]
    notes = [f"- {note}" for note in result.get("notes", [])]
    return lines + ([*notes, ""] if notes else [])


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]


def goal_row(goal: dict[str, Any]) -> list[str]:
    bound = f"{'at least' if goal['at_least'] else 'at most'} {cell(goal['bound'])}"
    return [goal["what"], cell(goal["value"]), bound, "met" if goal["met"] else "not met"]


def cell(value: Any) -> str:
    """Format a number with three digits or more, and nothing as a dash."""
    if value is None:
        return "-"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def summary(name: str, result: dict[str, Any]) -> list[str]:
    """Return a part's lines for the terminal: its table in columns, then its goals."""
    rows = [result.get("columns", []), *([cell(x) for x in row] for row in result.get("rows", []))]
    lines = [f"{name}: {result['seconds']:,.1f} s"]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines += ["  " + "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    for what, value, bound, met in map(goal_row, result.get("goals", [])):
        lines.append(f"  goal: {what}: {value}, {bound}: {met}")
    lines += [f"  note: {note}" for note in result.get("notes", [])]
    return lines + ([f"  failed: {result['error']}"] if result.get("error") else [])
