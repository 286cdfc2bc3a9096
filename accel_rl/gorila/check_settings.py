"""Check settings for `--cluster gorila` and `--cluster ray`, without importing Ray or inspecting the machine."""

from accel_rl.algos.r2d2 import R2D2Config
from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError


def check_ray_ranks(config: Resolved) -> None:
    """Raise ConfigError for settings that `--cluster ray` does not support."""
    if config.distributed.update != "all-reduce":
        raise ConfigError(f"--update {config.distributed.update}: must be all-reduce for ranks on a Ray cluster")
    if config.distributed.gpus:
        raise ConfigError(f"--gpus {config.distributed.gpus}: Ray assigns GPUs to ranks; leave it out")


def check_gorila(config: Resolved) -> None:
    """Raise ConfigError for settings that `--cluster gorila` does not support."""
    if config.distributed.sync_class:
        raise ConfigError(f"--update {config.distributed.update}: not with --cluster gorila")
    if config.distributed.several or config.distributed.is_async:
        what = "--update async" if config.distributed.is_async else f"--ranks {config.distributed.size}"
        raise ConfigError(f"{what}: not with --cluster gorila, whose learners are bundles: --gorila.bundles N")
    if len(config.env.games) > 1:
        raise ConfigError(f"--env.game {config.env.game}: --cluster gorila plays a single game")
    if config.schedule != "lockstep":
        raise ConfigError(f"--schedule {config.schedule}: --cluster gorila allows lockstep alone")
    if config.secondary.batch:
        raise ConfigError(f"--secondary.batch {config.secondary.batch}: not with --cluster gorila")
    if config.algo.normalize_rewards:
        raise ConfigError("--algo.normalize-rewards: not with --cluster gorila, whose learners may see no rollouts")
    if (k := config.gorila.outlier_deviations) and not config.algo.reward_clip:
        raise ConfigError(
            f"--gorila.outlier-deviations {k:g}: must be 0 with --algo.reward-clip 0, where rewards are unbounded"
        )
    if not isinstance(config.algo, ReplayAlgorithmConfig):
        if config.gorila.replay == "global":
            raise ConfigError(f"--gorila.replay global: {config.algorithm} has no replay")
        return
    if config.gorila.replay == "global" and config.algo.replay.prioritized:
        raise ConfigError("--replay.prioritized: --gorila.replay global draws uniformly; use local")
    if config.gorila.replay == "global" and isinstance(config.algo, R2D2Config):
        raise ConfigError("--gorila.replay global: it stores no recurrent states, which r2d2 needs; use local")
    for name in config.algo.units:
        if getattr(config.algo, name) != "updates":
            raise ConfigError(
                f"--algo.{name.replace('_', '-')} {getattr(config.algo, name)}: must be updates with --cluster gorila"
            )
