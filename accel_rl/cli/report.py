"""accel-rl report RUNS [options]"""

from pathlib import Path

from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.report.report import ReportOptions, write_report
from accel_rl.report.runs import read_csv, read_runs
from accel_rl.results.run import distinct
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError


def main(argv: list[str]) -> int:
    """accel-rl report RUNS [options]"""
    words, options = positionals(argv, [], "accel-rl report", many=True)
    chosen = parse(
        ReportOptions,
        options,
        "accel-rl report RUNS",
        "Compare runs (folders of runs or sweeps) with published results in tables and plots: one HTML page, and CSV.",
    )
    if not words and not chosen.csv:
        raise ConfigError("accel-rl report: a folder of runs is missing (or --csv FILE)")
    if chosen.reps < 1:
        raise ConfigError(f"--reps {chosen.reps}: must be at least 1")
    out = Path(chosen.out).expanduser()
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file")
    runs = read_runs([Path(w).expanduser() for w in words]) if words else []
    runs += [r for file in chosen.csv for r in read_csv(Path(file).expanduser())]
    runs = distinct(runs)
    files = write_report(runs, out, chosen)
    for run in runs:
        if run.repeated:
            stdout(f"{run.setting} in {run.game}: {run.repeated}")
    stdout(f"{files[0]}: {counted(len(runs), 'run')}; {counted(len(files) - 1, 'table')} as CSV in the same folder")
    return 0
