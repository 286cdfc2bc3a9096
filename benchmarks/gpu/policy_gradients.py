"""A2C and PPO at 1,024 environments."""

from benchmarks.gpu import variants
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import envs_near, settings


def a2c(bench: Bench) -> Result:
    config = settings(bench, "a2c", envs_near(bench.sizes.policy_envs, bench))
    return variants.measure(bench, "A2C", config, {}, 100_000)


def ppo(bench: Bench) -> Result:
    sizes = bench.sizes
    envs = envs_near(sizes.policy_envs, bench)
    config = settings(bench, "ppo", envs, sizes.ppo_horizon, minibatch=sizes.ppo_minibatch)
    result = variants.measure(bench, "PPO", config, {}, 50_000)
    result.notes.insert(0, f"rollouts of {sizes.ppo_horizon} steps, minibatches of {sizes.ppo_minibatch}, 4 epochs")
    return result
