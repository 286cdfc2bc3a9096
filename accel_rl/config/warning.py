"""What a user may not expect of settings that are possible."""

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.train import TrainConfig


def warning(config: TrainConfig) -> str:
    """Return what a user may not expect of these settings, in one line; "" for nothing."""
    if not isinstance(config.algo, ReplayAlgorithmConfig) or (config.cluster == "gorila" and config.gorila.updates):
        return ""
    replays = config.gorila.bundles if config.cluster == "gorila" and config.gorila.replay == "local" else 1
    start = config.algo.replay.start * replays
    if config.env_steps > start:
        return ""
    return (
        f"this run makes no update: learning begins at --replay.start {config.algo.replay.start} transitions"
        + (f" in each of {replays} replays" if replays > 1 else "")
        + f", and the run ends at --env-steps {config.env_steps}; give more env steps, or a smaller --replay.start"
    )
