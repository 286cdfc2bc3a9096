"""A sweep for each of figures 3 to 12 of Stooke & Abbeel 2018. `accel-rl report` draws the figure from the sweep's
runs."""

from collections.abc import Sequence

from accel_rl.papers.stooke.algorithm_experiments import (
    a2c_scaling,
    a3c,
    appo,
    optimizers,
    ppo_scaling,
    secondary_learner,
)
from accel_rl.papers.stooke.stooke_settings import POLICY_GRADIENT_GAMES, Q_LEARNING_GAMES, TEST_GAMES, q_learning
from accel_rl.settings.train import TrainConfig
from accel_rl.sweeps.grid import Grid, Level, grid

SEEDS = (0, 1)  # In section 5, results are averages over at least two random seeds.
WHOLE_MACHINE = 8  # In section 5.5, one synchronous learner uses all GPUs of a DGX-1.


def variant(game: str, algorithm: str, seed: int) -> TrainConfig:
    """`algorithm` is a name in the paper's figures: a2c-256env, dqn-512, a3c-16env-8 (8 learners of 16 environments)
    and appo-8env-8-2 (8 learners of 8 environments with 2 updates between pushes)."""
    name, size, *more = algorithm.split("-")
    if not size.endswith("env"):
        return q_learning(name, game, int(size), seed)
    envs, numbers = int(size.removesuffix("env")), [int(n) for n in more]
    if name == "appo":
        ranks, local_updates = (*numbers, 1)[:2]
        return appo(game, ranks, local_updates, seed)
    if name == "a3c":
        return a3c(game, numbers[0], seed)
    return {"a2c": a2c_scaling, "ppo": ppo_scaling}[name](game, envs, seed)


def variants(games: Sequence[str], algorithms: Sequence[str], seeds: Sequence[int], gpus: Sequence[int] = ()) -> Grid:
    """Runs of the variants `algorithms` in `games`. `gpus` lists the number of GPUs of each variant, by default one per
    learner."""
    return grid(variant, {"game": games}, Level({"algorithm": tuple(algorithms)}, gpus=tuple(gpus)), seeds=seeds)


def figure_3(seeds: Sequence[int] = SEEDS) -> Grid:
    """Policy gradients with different numbers of simulators and learners: A2C with 16 to 512 environments, A3C with 1
    to 32 learners, PPO with 8 to 512 environments, and APPO with 8 learners and 1 to 4 updates between pushes."""
    gpus = {f"a2c-{n}env": 1 for n in (16, 32, 64, 128, 256, 512)}
    # 16 or 32 learners of A3C share 8 GPUs.
    gpus |= {f"a3c-16env-{n}": min(n, WHOLE_MACHINE) for n in (1, 2, 4, 8, 16, 32)}
    gpus |= {f"ppo-{n}env": 1 for n in (8, 16, 32, 64, 128, 256, 512)}
    gpus |= {f"appo-8env-8-{n}": WHOLE_MACHINE for n in (1, 2, 3, 4)}
    return variants(TEST_GAMES, tuple(gpus), seeds, tuple(gpus.values()))


def figure_4(seeds: Sequence[int] = SEEDS) -> Grid:
    """The batch sizes of DQN and of Categorical DQN."""
    names = [f"dqn-{n}" for n in (32, 512, 1_024)] + [f"c51-{n}" for n in (32, 256, 512, 1_024, 2_048)]
    return variants(TEST_GAMES, names, seeds)


def figure_5(seeds: Sequence[int] = SEEDS) -> Grid:
    """Policy gradients on a whole machine with 8 GPUs (section 5.5). A2C uses 256 environments, and the other
    algorithms are those of Figures 10 and 11."""
    names = ("a2c-256env", "a3c-16env-16", "ppo-64env", "appo-8env-8")
    return variants(TEST_GAMES, names, seeds, gpus=(WHOLE_MACHINE,) * 4)


def figure_6(seeds: Sequence[int] = SEEDS) -> Grid:
    """A secondary learner on Breakout. The batch sizes of the first and the secondary learner are 2,048 and 64, or 64
    and 2,048."""
    return grid(secondary_learner, {"batch_size": (2_048, 64), "secondary": (64, 2_048)}, seeds=seeds)


def figure_7(seeds: Sequence[int] = SEEDS) -> Grid:
    """The norms of the parameters in the runs of Figure 6."""
    return figure_6(seeds)


def figure_8(seeds: Sequence[int] = SEEDS) -> Grid:
    """A secondary learner on Breakout. Both learners use a batch size of 256."""
    return grid(secondary_learner, {"batch_size": (256,), "secondary": (256,)}, seeds=seeds)


def figure_9(seeds: Sequence[int] = SEEDS) -> Grid:
    """The norms of parameters, gradients and steps with Adam and with RMSProp, for Categorical DQN on Q*bert."""
    return grid(optimizers, *optimizers.levels, seeds=seeds)  # type: ignore[attr-defined]


def figure_10(seeds: Sequence[int] = SEEDS) -> Grid:
    """A2C in 49 games: the baseline with 16 environments, and the scaled synchronous and asynchronous variants."""
    names = ("a2c-16env", "a2c-256env", "a3c-16env-16")
    return variants(POLICY_GRADIENT_GAMES, names, seeds, gpus=(1, WHOLE_MACHINE, WHOLE_MACHINE))


def figure_11(seeds: Sequence[int] = SEEDS) -> Grid:
    """PPO in 49 games: the baseline with 8 environments, and the scaled synchronous and asynchronous variants."""
    names = ("ppo-8env", "ppo-64env", "appo-8env-8")
    return variants(POLICY_GRADIENT_GAMES, names, seeds, gpus=(1, WHOLE_MACHINE, WHOLE_MACHINE))


def figure_12(seeds: Sequence[int] = SEEDS) -> Grid:
    """Three algorithms in 56 games: DQN with a batch size of 512, Categorical DQN with 2,048, and epsilon-Rainbow with
    512."""
    return variants(Q_LEARNING_GAMES, ("dqn-512", "c51-2048", "rainbow-512"), seeds)
