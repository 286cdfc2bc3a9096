"""accel-rl export RUN [options]"""

from dataclasses import dataclass
from pathlib import Path

from accel_rl.api.export import export
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder


@dataclass(frozen=True)
class ExportOptions:
    out: str = ""
    """Folder of the model; it is created. Default: model/ in the run folder."""
    checkpoint: str = ""
    """Export this checkpoint folder instead of the newest."""
    best: bool = False
    """Export the network with the best evaluation instead of the newest checkpoint."""
    onnx: bool = False
    """Also write the network as policy.onnx. Needs the extra onnx."""


def main(argv: list[str]) -> int:
    """accel-rl export RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl export")
    chosen = parse(
        ExportOptions, options, "accel-rl export RUN", "Write the network of a run as a model that others can load."
    )
    run, config = RunFolder.open(Path(words[0]).expanduser())
    out = Path(chosen.out).expanduser() if chosen.out else run.path / "model"
    about = export(run, config, out, checkpoint=chosen.checkpoint, best=chosen.best, onnx=chosen.onnx)
    evaluation = about["evaluation"]
    score = f", score {evaluation['score_mean']:.2f}" if evaluation else ", not evaluated"
    stdout(f"{out}: {config.algorithm} at {about['env_steps']:,} env steps{score}")
    stdout(f"next:\n  accel-rl evaluate {out}\n  accel-rl push {out} NAME/MODEL    to a model hub")
    return 0
