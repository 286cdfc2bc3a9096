"""accel-rl evaluate RUN [options]"""

from pathlib import Path

from accel_rl.api.options import EvaluateOptions
from accel_rl.api.trained_agent import evaluate
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import counted


def main(argv: list[str]) -> int:
    """accel-rl evaluate RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl evaluate")
    chosen = parse(EvaluateOptions, options, "accel-rl evaluate RUN", "Score a run's agent on fresh episodes.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    result, of_agent = evaluate(run, config, chosen)
    played_by = (
        "random actions at 10 Hz" if chosen.random else f"{config.algorithm} at {of_agent['env_steps']:,} env steps"
    )
    stdout(
        f"{played_by}: score {result.mean:.2f} +- {result.std:.2f} over {counted(len(result.scores), 'episode')} "
        f"(min {min(result.scores):g}, max {max(result.scores):g}, {sum(result.lengths):,} env steps)"
    )
    if result.protocol:
        stdout("protocol: " + ", ".join(f"{k}={v}" for k, v in result.protocol.items()))
    return 0
