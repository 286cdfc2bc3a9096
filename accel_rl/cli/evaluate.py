"""accel-rl evaluate RUN [options]"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from accel_rl.api.trained_agent import evaluate
from accel_rl.config.acting import ActingEnv, acting_config
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.config.train import TrainConfig
from accel_rl.runners.evaluation import Evaluation
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.random_baseline import evaluate_random
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import Count, counted
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class EvaluateOptions:
    episodes: Count = 30
    """Number of episodes to play. 0: play for --steps env steps. With --starts saved each start is played once."""
    steps: Count = 125_000
    """Env steps of the evaluation, with --episodes 0."""
    seed: Count = 0
    """Seed of the environments and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    parallel: Count = 16
    """Number of environments that are evaluated in parallel."""
    starts: Literal["", "noop", "saved"] = ""
    """Starts of Atari episodes, as --evaluation.starts of a run. Default: those of the run."""
    starts_file: str = ""
    """File of start points, made by `accel-rl starts`, with --starts saved. Default: the run's."""
    checkpoint: str = ""
    """Evaluate this checkpoint folder instead of the newest."""
    best: bool = False
    """Evaluate the network with the best evaluation instead of the newest checkpoint."""
    random: bool = False
    """Evaluate uniformly random actions at 10 Hz (each held for 6 frames) instead of an agent (Nair et al. 2015)."""
    save: bool = False
    """Also write the result to final/ in the run folder, where `accel-rl report` finds it: noop.json or saved.json by
    the starts, random-noop.json or random-saved.json with --random."""
    json: str = ""
    """Also write every score, with the protocol, to this file."""
    device: str = ""
    """Device to act on: auto, cpu, cuda or cuda:N. Default: the run's, or one of this machine, with a note."""
    env: ActingEnv = field(default_factory=ActingEnv)


def main(argv: list[str]) -> int:
    """accel-rl evaluate RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl evaluate")
    chosen = parse(EvaluateOptions, options, "accel-rl evaluate RUN", "Score a run's agent on fresh episodes.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config = _with_options(config, chosen)
    if chosen.random:
        result, found = _random(config, chosen)
    else:
        result, found = _trained(run, config, chosen)
    played_by = (
        "random actions at 10 Hz" if chosen.random else f"{config.algorithm} at {found['env_steps']:,} env steps"
    )
    stdout(
        f"{played_by}: score {result.mean:.2f} +- {result.std:.2f} over {counted(len(result.scores), 'episode')} "
        f"(min {min(result.scores):g}, max {max(result.scores):g}, {sum(result.lengths):,} env steps)"
    )
    if result.protocol:
        stdout("protocol: " + ", ".join(f"{k}={v}" for k, v in result.protocol.items()))
    found |= result.to_dict()
    if chosen.save:
        name = ("random-" if chosen.random else "") + config.evaluation.starts
        run.write_json(f"final/{name}.json", found)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _with_options(config: TrainConfig, chosen: EvaluateOptions) -> TrainConfig:
    evaluation = dataclasses.replace(
        config.evaluation,
        episodes=chosen.episodes,
        steps=chosen.steps,
        greedy=chosen.greedy,
        parallel=chosen.parallel,
        starts=chosen.starts or config.evaluation.starts,
    )
    if chosen.starts_file:
        evaluation = dataclasses.replace(evaluation, starts_file=chosen.starts_file)
    elif evaluation.starts == "noop":
        evaluation = dataclasses.replace(evaluation, starts_file="")
    return dataclasses.replace(config, evaluation=evaluation)


def _trained(run: RunFolder, config: TrainConfig, chosen: EvaluateOptions) -> tuple[Evaluation, dict[str, Any]]:
    """Return the evaluation, and what was evaluated."""
    result, env_steps = evaluate(
        run, config, seed=chosen.seed, checkpoint=chosen.checkpoint, best=chosen.best, device=chosen.device,
        backend=chosen.env.backend,
    )  # fmt: skip
    return result, {"env_steps": env_steps, "agent": chosen.checkpoint or ("best" if chosen.best else "newest")}


def _random(config: TrainConfig, chosen: EvaluateOptions) -> tuple[Evaluation, dict[str, Any]]:
    if chosen.best or chosen.checkpoint or chosen.greedy:
        raise ConfigError("--random evaluates no agent of the run: leave out --best, --checkpoint and --greedy")
    config = acting_config(config, chosen.device, chosen.env.backend)
    result = evaluate_random(config, RankPlan.acting(config), steps=chosen.steps, seed=chosen.seed)
    return result, {"env_steps": 0, "agent": "random"}
