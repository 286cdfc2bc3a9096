"""The pictures of Stooke & Abbeel 2018, Figures 6 to 9: scores and norms of the first layers, run beside run.

accel-rl train experiments.stooke:secondary_learner --run-dir runs/a ...
python -m experiments.norms runs/a runs/b --out norms.png
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from accel_rl.arguments import parse, positionals, stdout
from accel_rl.errors import ConfigError
from accel_rl.metrics.plot import read_column
from accel_rl.runners.run_folder import RunFolder

LAYERS = {"Conv-0": "body.conv_0.weight", "FC-0": "advantage.hidden.weight"}
NORMS = {"weights": "param_norm", "gradients": "grad_norm", "steps": "step_norm"}


@dataclass(frozen=True)
class Options:
    out: str = "norms.png"
    """Picture to write: .png, .pdf or .svg."""


def panels() -> dict[str, str]:
    """Title -> column of metrics.csv, in the order of Figure 9."""
    found = {"score": "eval_score", "all weights": "param_norm"}
    for layer, name in LAYERS.items():
        found |= {f"{layer} {what}": f"{norm}/{name}" for what, norm in NORMS.items()}
    return found


def label(run: Path, prefix: str) -> str:
    config = RunFolder.open(run)[1]
    if prefix:
        return f"{run.name}: secondary, {config.secondary.batch}"
    return f"{run.name}: {getattr(config.algo, 'batch_size', '')}"


def draw(runs: list[Path], out: Path) -> int:
    """A panel for each quantity, a curve for each learner. Returns how many curves there are. ConfigError."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    titles = panels()
    figure, axes = plt.subplots(2, 4, figsize=(18, 8), dpi=100)
    curves = 0
    for run in runs:
        config = RunFolder.open(run)[1]
        if not config.log.norms:
            raise ConfigError(f"{run} has no norms: it was not trained with --log.norms")
        for prefix in ("", "secondary/") if config.secondary.batch else ("",):
            curves += 1
            for panel, (title, column) in zip(axes.flat, titles.items(), strict=True):
                x, y = read_column(run, "env_steps", prefix + column)
                panel.plot(x, y, label=label(run, prefix), linewidth=1.2)
                panel.set_title(title)
                panel.grid(alpha=0.3)
    axes[0, 0].legend()
    figure.supxlabel("env steps")
    figure.tight_layout()
    figure.savefig(out)
    plt.close(figure)
    return curves


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
