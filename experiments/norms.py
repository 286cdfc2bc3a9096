"""Draw Figures 6 to 9 of Stooke & Abbeel 2018: scores and norms of the first layers. Runs that differ only by seed form
one curve. For a sweep, `accel-rl report` draws the same Figures 6 to 9.

    accel-rl train experiments.stooke:secondary_learner --run-dir=runs/a ...
    python -m experiments.norms runs/a runs/b --out=norms.png
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from accel_rl.parsing.arguments import parse, positionals, stdout
from accel_rl.report import layer_norms
from accel_rl.report.runs import read_runs
from accel_rl.results.trained_run import distinct
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class Options:
    out: str = "norms.png"
    """Picture to write: .png, .pdf or .svg."""


def draw(folders: list[Path], out: Path) -> int:
    """Draw a panel for each quantity, with a curve for each learner, the mean over seeds. Return the number of
    learners. Raises ConfigError if a run has no norms, or if the runs play different games."""
    runs = distinct(read_runs(folders))
    for run in runs:
        if not layer_norms.has_norms(run):
            raise ConfigError(f"{run.path} has no norms: it was not trained with --log.norms")
    if len(games := sorted({r.game for r in runs})) > 1:
        raise ConfigError(f"the runs are of several games ({', '.join(games)}); give the runs of one game")
    panels = layer_norms.panels(runs)
    if not panels:
        raise ConfigError(f"{', '.join(map(str, folders))}: no row of metrics.csv has norms yet")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(layer_norms.drawn(panels, out.suffix[1:]))
    return max(len(panel.lines) for panel in panels)


def main(argv: list[str]) -> int:
    try:
        words, options = positionals(argv, ["a run folder"], "python -m experiments.norms", many=True)
        chosen = parse(Options, options, "python -m experiments.norms RUN [RUN ...]", __doc__ or "")
        out = Path(chosen.out)
        if out.suffix not in (".png", ".pdf", ".svg"):
            raise ConfigError(f"--out {out}: must end in .png, .pdf or .svg")
        n = draw([Path(w) for w in words], out)
    except ConfigError as e:
        print(f"experiments.norms: {e}", file=sys.stderr)
        return 2
    stdout(f"{out}: {n} learners")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
