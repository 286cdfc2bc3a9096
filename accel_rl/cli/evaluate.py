"""accel-rl evaluate RUN [options]"""

import dataclasses
import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from accel_rl.cli.arguments import parse, positionals, stdout
from accel_rl.cli.trained_agent import trained_agent
from accel_rl.runners.evaluator import Evaluator
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import Count


@dataclass(frozen=True)
class EvaluateOptions:
    episodes: Count = 30
    """Number of episodes to play. 0: play for --steps env steps."""
    steps: Count = 125_000
    """Env steps of the evaluation, with --episodes 0."""
    seed: Count = 0
    """Seed of the environments and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    parallel: Count = 16
    """Number of environments that are evaluated in parallel."""
    checkpoint: str = ""
    """Evaluate this checkpoint folder instead of the newest."""
    json: str = ""
    """Also write every score, with the protocol, to this file."""


def main(argv: list[str]) -> int:
    """accel-rl evaluate RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl evaluate")
    chosen = parse(EvaluateOptions, options, "accel-rl evaluate RUN", "Score a run's agent on fresh episodes.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config = dataclasses.replace(
        config,
        evaluation=dataclasses.replace(
            config.evaluation,
            episodes=chosen.episodes,
            steps=chosen.steps,
            greedy=chosen.greedy,
            parallel=chosen.parallel,
        ),
    )
    config, state, agent, plan = trained_agent(run, config, chosen.checkpoint, chosen.greedy)
    with closing(Evaluator(config, plan)) as evaluator:
        result = evaluator.evaluate(agent, steps=chosen.steps, seed=chosen.seed)
    assert result is not None
    stdout(
        f"{config.algorithm} at {state['env_steps']:,} env steps: score {result.mean:.2f} +- {result.std:.2f} over "
        f"{len(result.scores)} episodes (min {min(result.scores):g}, max {max(result.scores):g}, "
        f"{sum(result.lengths):,} env steps)"
    )
    if result.protocol:
        stdout("protocol: " + ", ".join(f"{k}={v}" for k, v in result.protocol.items()))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"env_steps": state["env_steps"], **result.to_dict()}, indent=1) + "\n")
    return 0
