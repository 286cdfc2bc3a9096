"""Nair et al. 2015 (arXiv:1507.04296) present Gorila: 100 bundles, each with an actor, a replay and a learner, and a
parameter server of 31 shards.

| in the paper | here |
|---|---|
| Tables 1 to 4, Figures 3 to 5: Gorila and single-GPU DQN in 49 games | `tables`: `gorila` and `single` |
| section 5.2: final evaluations from null op starts and from saved starts | `accel-rl evaluate RUN --best --save` |

On a Ray cluster, `accel-rl sweep gorila:tables --only agent=gorila --override address=HOST:PORT` runs all Gorila runs
of the tables. For a small machine, the options `--only game=pong --scale 0.0005 --override gorila.bundles=2
gorila.shards=2` reduce the sweep `tables`. The experiments `pong_small` and `pong_small_single` need only two cores.
"""

from dataclasses import replace
from typing import Any

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.papers import daley
from accel_rl.settings.presets import on_gorila
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import levels

REPORT = "accel_rl.papers.gorila.gorila_figures"
BUNDLES, SHARDS = 100, 31  # section 5.1
ENV_STEPS = 200_000_000
"""The total number of env steps of all bundles. This project chose the number of env steps, because the paper reports
only "up to 6 days"."""
SMALL_UPDATES = 300_000
"""The number of parameter updates in the experiment `pong_small`."""
SMALL_BUNDLES, SMALL_REPLAY = 2, 100_000
"""The experiment `pong_small` has two bundles, whose replays together store 100,000 transitions."""


def gorila(
    game: str = "pong", bundles: int = BUNDLES, shards: int = SHARDS, replay: int = 1_000_000, seed: int = 0
) -> TrainConfig:
    """Section 5.1 of Nair et al. 2015 at the paper's size. `replay` is the number of transitions in the replay of each
    bundle.

    The paper's replay holds "1 million frames". This experiment assumes that the paper counts the frames that the agent
    sees, one per transition, as in Mnih et al. 2015, whose setup the paper follows. A replay of one million transitions
    needs 7.1 GB per bundle. If the paper counted emulated frames, four per transition, the setting would be
    `replay=250_000`.
    """
    base = on_gorila(default_config("dqn"))
    default: Any = base.algo
    algo: Any = replace(
        default,
        # Mnih et al. 2015: updates begin after 50,000 transitions.
        replay=replace(default.replay, size=replay, start=min(50_000, replay)),
        batch_size=32,
        intensity=32.0,  # Algorithm 1 of Nair et al. 2015 makes one update per env step.
        gamma=0.99,
        target_interval=60_000,  # 60,000 updates of the parameters (section 5.1)
        optimizer="adagrad",  # section 4.2
        # This project chose AdaGrad's learning rate without a search. A small run with 0.003 did not learn Pong.
        learning_rate=0.003,
        optimizer_eps=1e-6,  # This project chose the optimizer's epsilon, because the paper reports no value.
        network="nature",  # section 5.1
        epsilon=1.0,  # In section 5.1, epsilon falls to 0.1 in a million updates.
        epsilon_final=0.1,
        epsilon_steps=1_000_000,
        epsilon_evaluation=0.05,
    )
    return replace(
        base,
        env=replace(base.env, game=game, protocol="mnih2015"),
        algo=algo,
        sampler=replace(base.sampler, envs=1, horizon=1, groups=1, engine="in-process", decorrelation_steps=0),
        gorila=replace(
            base.gorila,
            bundles=bundles,
            shards=shards,
            in_flight=0,  # In algorithm 1 of Nair et al. 2015, each step begins with a pull of the newest parameters.
            outlier_deviations=5.0,  # This project chose the number of standard deviations; the paper says "several".
        ),
        # The paper does not report the interval of evaluations.
        evaluation=replace(base.evaluation, interval=2_000_000, episodes=30),
        device="cpu",  # In the paper, only DQN is trained on a GPU.
        env_steps=ENV_STEPS,
        seed=seed,
    )


def single(game: str = "pong", seed: int = 0) -> TrainConfig:
    """DQN with a single learner and the settings of Mnih et al. 2015, with which Nair et al. 2015 compare Gorila."""
    return daley.dqn(game, 1, "standard", seed)


@levels({"game": ATARI_49}, {"agent": ("gorila", "single")}, seeds=(0, 1, 2, 3, 4))  # Section 5.2 reports five runs.
def tables(game: str = "pong", agent: str = "gorila", seed: int = 0) -> TrainConfig:
    """Tables 1 to 4 and Figures 3 to 5, which compare Gorila and single-GPU DQN in the 49 games."""
    if agent not in ("gorila", "single"):
        raise ValueError(f"agent={agent!r}: must be gorila or single")
    return gorila(game, seed=seed) if agent == "gorila" else single(game, seed)


table_1 = table_2 = table_3 = table_4 = figure_3 = figure_4 = figure_5 = tables


def pong_small(seed: int = 1) -> TrainConfig:
    """A small Gorila run that learns Pong on two cores, with 300,000 updates, two bundles and two shards.

    The game's rules are those of Stooke & Abbeel 2018, with stacks of 2 frames of 104x80. The network is A3C's with 64
    hidden units, the batch size is 8, and targets are 3-step returns. Each bundle has 16 environments and a replay of
    50,000 transitions. The optimizer is RMSProp, because no learning rate for AdaGrad was searched.
    """
    config = on_gorila(default_config("dqn"))
    default: Any = config.algo
    algo: Any = replace(
        default,
        replay=replace(default.replay, size=SMALL_REPLAY // SMALL_BUNDLES, start=5_000),
        batch_size=8,
        intensity=2.0,  # In DQN, an update follows every 4 env steps.
        n_step=3,
        network="a3c",
        hidden=(64,),
        optimizer="rmsprop",
        learning_rate=2.5e-4,
        epsilon_steps=50_000,
        target_interval=2_000,
    )
    return replace(
        config,
        env=replace(config.env, game="pong", stack=2),
        algo=algo,
        gorila=replace(config.gorila, bundles=SMALL_BUNDLES, shards=2, updates=SMALL_UPDATES),
        evaluation=replace(config.evaluation, interval=100_000, steps=10_000),
        env_steps=_small_env_steps(algo),
        torch_threads=1,
        seed=seed,
    )


def pong_small_unguarded(seed: int = 1) -> TrainConfig:
    """`pong_small` without discarding outliers. `pong_small_single` discards no outliers either."""
    config = pong_small(seed)
    return replace(config, gorila=replace(config.gorila, outlier_deviations=0.0))


def pong_small_single(seed: int = 1) -> TrainConfig:
    """One learner without a cluster makes the 300,000 updates of `pong_small`, with the same settings. The replay of
    the single learner is as large as the replays of both bundles together, so that each transition is available for the
    same number of updates."""
    config = pong_small(seed)
    algo: Any = config.algo
    algo = replace(algo, replay=replace(algo.replay, size=SMALL_REPLAY))
    without = default_config("dqn").gorila
    return replace(config, algo=algo, cluster="none", gorila=without, env_steps=_small_env_steps(algo))


def _small_env_steps(algo: Any) -> int:
    return int(algo.replay.start + SMALL_UPDATES * algo.batch_size / algo.intensity)
