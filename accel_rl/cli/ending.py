"""Report how a run ended."""

import math

from accel_rl.config.arguments import stdout
from accel_rl.config.train import TrainConfig
from accel_rl.metrics.progress import human_score, human_time
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import counted


def reported(config: TrainConfig, run: RunFolder, result: Result | None) -> int:
    """Report how the run ended; returns the exit code. result: None if another rank reports."""
    if result is None:
        return 0
    _report(config, run, result)
    return result.exit_code


def _report(config: TrainConfig, run: RunFolder, result: Result) -> None:
    """Print the results of the run and the commands to use next."""
    state = "stopped" if result.exit_code else "finished"
    online = f"online score {human_score(result.score)} over the last {config.log.window} episodes"
    if math.isnan(result.score):
        each = result.env_steps // max(1, config.sampler.envs * config.distributed.size)
        online = f"no online score: no episode has ended in about {each:,} steps of each environment"
    stdout(
        f"{state} at {result.env_steps:,} env steps after {human_time(result.wall_s)} "
        f"({result.env_steps / max(result.wall_s, 1e-9):,.0f} steps/s); {online}"
    )
    if result.evaluation:
        e = result.evaluation
        stdout(f"evaluation: score {e.mean:.2f} +- {e.std:.2f} over {counted(len(e.scores), 'episode')}")
    stdout("next:")
    stdout(f"  accel-rl plot {run.path}      the learning curve as a picture")
    stdout(f"  accel-rl watch {run.path}     a video of the agent")
    more = "" if result.exit_code else f" --env-steps {2 * config.env_steps}"
    stdout(f"  accel-rl resume {run.path}{more}    continue training")
