"""accel-rl export RUN [options]"""

from pathlib import Path

from accel_rl.api.export import export
from accel_rl.api.options import ExportOptions
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder


def main(argv: list[str]) -> int:
    """accel-rl export RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl export")
    chosen = parse(
        ExportOptions, options, "accel-rl export RUN", "Write the network of a run as a model that others can load."
    )
    run, config = RunFolder.open(Path(words[0]).expanduser())
    out, about = export(run, config, chosen)
    evaluation = about["evaluation"]
    score = f", score {evaluation['score_mean']:.2f}" if evaluation else ", not evaluated"
    stdout(f"{out}: {config.algorithm} at {about['env_steps']:,} env steps{score}")
    stdout(f"next:\n  accel-rl evaluate {out}\n  accel-rl push {out} NAME/MODEL    to a model hub")
    return 0
