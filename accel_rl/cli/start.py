"""Check a run, start it, and report how it ended."""

from typing import Any

from accel_rl.cli.arguments import stdout
from accel_rl.config.train import TrainConfig
from accel_rl.emulator.device import cuda
from accel_rl.envs.make import make_spec
from accel_rl.metrics.progress import human_score, human_time
from accel_rl.metrics.tensorboard import check_tensorboard
from accel_rl.runners.cluster import gorila, ray_ranks
from accel_rl.runners.cluster.session import check_ray
from accel_rl.runners.plan import RankPlan, RunPlan
from accel_rl.runners.ranks import sync_launcher
from accel_rl.runners.ranks.rank_config import rank_config
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Trainer


def check(config: TrainConfig) -> None:
    """Raise ConfigError for settings that are impossible. Placement is checked by the plan."""
    config.check()
    if config.log.tensorboard:
        check_tensorboard()
    if config.cluster == "gorila":
        gorila.check(config)
    elif config.cluster == "ray":
        ray_ranks.check(config)
        check_ray()


def check_device(config: TrainConfig, plan: RankPlan) -> None:
    """Raise ConfigError if the learner's memory does not fit on its device, or if games cannot be emulated there."""
    if plan.sampler.engine == "device" and plan.device.startswith("cuda"):
        cuda.check(plan.device)
    config.algo.check_memory(make_spec(config.env, training=True), plan.device)


def start(config: TrainConfig, plan: RunPlan, run: RunFolder, state: dict[str, Any] | None) -> int:
    """Run to the end from a checkpoint's state, or from the beginning (None); returns the exit code."""
    if config.cluster == "gorila":
        g = config.gorila
        length = f"{g.updates:,} updates" if g.updates else f"{config.env_steps:,} env steps"
        stdout(
            f"{config.algorithm} on {config.env.game or config.env.id}: {length} by {g.members} members and {g.shards} "
            f"shard{'s' * (g.shards != 1)} -> {run.path}"
        )
        return reported(config, run, gorila.train(config, run, state))
    if config.distributed.several or config.cluster == "ray":
        stdout(
            f"{config.algorithm} on {config.env.game or config.env.id}: {config.env_steps:,} env steps on "
            f"{config.distributed.size} ranks, {config.distributed.update} -> {run.path}"
        )
        if config.cluster == "ray":
            with gorila.ray_of(config) as ray:
                return reported(config, run, ray_ranks.train(config, ray, run))
        return reported(config, run, sync_launcher.train(config, plan, run, state["env_steps"] if state else None))
    config = rank_config(config, 0)
    trainer = Trainer(config, plan.ranks[0], run, state)
    stdout(
        f"{config.algorithm} on {trainer.spec.name}: {config.env_steps:,} env steps on {plan.ranks[0].device}, "
        f"{plan.ranks[0].sampler.environments()} -> {run.path}"
    )
    return reported(config, run, trainer.run())


def reported(config: TrainConfig, run: RunFolder, result: Result | None) -> int:
    """Report how the run ended; returns the exit code. result: None if another rank reports."""
    if result is None:
        return 0
    _report(config, run, result)
    return result.exit_code


def _report(config: TrainConfig, run: RunFolder, result: Result) -> None:
    """Print the results of the run and the commands to use next."""
    state = "stopped" if result.exit_code else "finished"
    stdout(
        f"{state} at {result.env_steps:,} env steps after {human_time(result.wall_s)} "
        f"({result.env_steps / max(result.wall_s, 1e-9):,.0f} steps/s); online score {human_score(result.score)} over "
        f"the last {config.log.window} episodes"
    )
    if result.evaluation:
        e = result.evaluation
        stdout(f"evaluation: score {e.mean:.2f} +- {e.std:.2f} over {len(e.scores)} episodes")
    stdout("next:")
    stdout(f"  accel-rl plot {run.path}      the learning curve as a picture")
    if config.env.game:
        stdout(f"  accel-rl watch {run.path}     a video of the agent")
    more = "" if result.exit_code else f" --env-steps {2 * config.env_steps}"
    stdout(f"  accel-rl resume {run.path}{more}    continue training")
