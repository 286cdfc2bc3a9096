"""Settings of a grid by name, and experiments at another scale."""

from dataclasses import replace
from typing import Any

from accel_rl.algos.dqn import DQNConfig
from accel_rl.config import setting
from accel_rl.config.arguments import parse
from accel_rl.config.train import TrainConfig
from accel_rl.system.errors import ConfigError

FEW_STEPS = 100  # an evaluation with fewer steps takes longer than them: episodes are finished
MOST_EVALUATIONS = 10
PERIODS = 20  # least number of periods of a concurrent run, and of target intervals on a Gorila cluster


def full_name(config: TrainConfig, key: str) -> str:
    """Return a setting's full name: game -> env.game. ConfigError, with similar names, for an unknown setting."""
    try:
        return setting.full_name(config, key)
    except ConfigError as e:
        raise ConfigError(f"key {key!r} of the grid: {e}") from e


def parsed(config: TrainConfig, key: str, text: str) -> tuple[str, Any]:
    """Parse a setting as on the command line; returns (full name, value). ConfigError."""
    name = full_name(config, key.replace("_", "-"))
    if text in ("True", "False"):
        head, _, tail = name.rpartition(".")
        flag = f"{head}.{'' if text == 'True' else 'no-'}{tail}" if head else ("" if text == "True" else "no-") + tail
        words = ["--" + flag]
    else:
        words = ["--" + name, *text.split()]
    value: Any = parse(TrainConfig, words, "accel-rl sweep", "", config)
    for part in name.split("."):
        value = getattr(value, part)
    return name, value


def scaled(config: TrainConfig, scale: float) -> TrainConfig:
    """Return the same experiment `scale` times as long, for a small machine.

    Scaled are the length of the run, the interval and length of evaluations, the capacity of a replay and the decay of
    epsilon. Networks, batch sizes, learning rates and target intervals stay, with these exceptions:
    - A run on a Gorila cluster has at least PERIODS target intervals. Its numbers of bundles and shards stay.
    - A concurrent run has at least PERIODS periods: within a single period it would learn nothing.
    - A replay keeps room for two batches and a rollout.
    - Evaluations of fewer than FEW_STEPS steps, or of a number of episodes, happen at most MOST_EVALUATIONS times: they
      play complete episodes, and would take longer than the training between them.
    """
    evaluation, env_steps = config.evaluation, max(1, round(config.env_steps * scale))

    def share(n: int) -> int:
        return max(1, round(n * scale)) if n else 0

    interval = share(evaluation.interval)
    steps = share(evaluation.steps)
    if interval and (evaluation.episodes or steps < FEW_STEPS):
        interval = max(interval, -(-env_steps // MOST_EVALUATIONS))
    algo: Any = config.algo
    if config.schedule == "concurrent":
        each = config.sampler.envs * (config.sampler.horizon or 1)
        period = max(each, env_steps // PERIODS // each * each)
        algo = replace(algo, target_interval=min(algo.target_interval, period))
        config = replace(config, algo=algo)  # its horizon follows from the period
    if isinstance(algo, DQNConfig):
        ranks = config.distributed.size  # each has a part of the replay
        rollout = (config.T + algo.n_step + 8) * config.rank_envs
        size = max(share(algo.replay.size), 2 * algo.batch_size * ranks, rollout * ranks)
        replay = replace(algo.replay, size=size, start=share(algo.replay.start))
        algo = replace(algo, replay=replay, epsilon_steps=share(algo.epsilon_steps))
    gorila = config.gorila
    if gorila.updates:
        gorila = replace(gorila, updates=share(gorila.updates))
    if config.cluster == "gorila" and isinstance(algo, DQNConfig):
        updates = gorila.updates or round(env_steps * algo.intensity / algo.batch_size)
        algo = replace(algo, target_interval=min(algo.target_interval, max(1, updates // PERIODS)))
    return replace(
        config,
        algo=algo,
        gorila=gorila,
        env_steps=env_steps,
        evaluation=replace(evaluation, interval=interval, steps=steps),
    )
