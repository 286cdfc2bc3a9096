"""Stooke & Abbeel 2018 (arXiv:1803.02811): many simulators (section 5.3), large batches (section 5.4), and many
learners, synchronous or not (sections 4.2, 4.3 and 5.5).

| in the paper | here |
|---|---|
| Figure 2, Table 1: sampling | `experiments.sampling` |
| Figure 3: A2C, PPO | `a2c_scaling`, `ppo_scaling` |
| Figure 3: A3C, APPO | `a3c`, `appo` |
| Figure 4: DQN, Categorical DQN | `dqn_scaling`, `c51_scaling` |
| Figure 5: a whole machine for one run | `figure_5` |
| Figures 6 to 8: secondary learner | `secondary_learner`, drawn by `experiments.norms` |
| Figure 9: update rules | `update_rules`, drawn by `experiments.norms` |
| Figures 10, 11, 12: more games | `figure_10`, `figure_11`, `figure_12` |
| Tables 2, 3: hours | `table_2`, `table_3` (the report's throughput table) |
| the same in several games | `a2c_ranks`, `ppo_ranks`, `a3c`, `appo`, `async_dqn` |

Several learners are ranks: `--gpus-per-run N` of `launch.sweep` gives a run N GPUs, and ranks beyond them share.
`--scale` makes each run shorter, not narrower.

One run: `accel-rl train experiments.stooke:a2c_scaling --game pong --envs 64`
All of a figure's: `python -m launch.sweep experiments.stooke:a2c_scaling --gpus 0-7 --scale 0.02`
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accel_rl.config import SecondaryConfig, TrainConfig, default_config
from accel_rl.envs.games import ATARI_49, ATARI_57
from launch.grid import Grid, Level, grid, levels

STEPS = 50_000_000
"""Env steps of a learning curve (section 5.3: 200 M frames)."""

TEST_GAMES = ("beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders")
"""For Figures 3 to 5. The paper's text names three of their panels (Breakout, Pong, Seaquest); the others are ours."""

POLICY_GRADIENT_GAMES = tuple(sorted({*ATARI_49, "pitfall"} - {"hero"}))
"""Figures 10 and 11: those of Schulman et al. 2017, as in the paper's published code."""

Q_LEARNING_GAMES = tuple(g for g in ATARI_57 if g != "surround")
"""Figure 12: the 57 without surround, as in the paper's published code."""


@levels({"game": TEST_GAMES}, {"envs": (16, 32, 64, 128, 256, 512)})
def a2c_scaling(game: str = "pong", envs: int = 16, seed: int = 0) -> TrainConfig:
    """Figure 3, top: 16 ... 512 environments, horizon 5, step size with the root of the batch."""
    return _curve("a2c", game, envs, 5, seed)


@levels({"game": TEST_GAMES}, {"envs": (8, 16, 32, 64, 128, 256, 512)})
def ppo_scaling(game: str = "pong", envs: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, third row: 8 ... 512 environments with horizons of 256 ... 4, so that a batch stays 2,048."""
    if envs < 1 or 2_048 % envs:
        raise ValueError(f"envs={envs} must divide the batch of 2,048")
    return _curve("ppo", game, envs, 2_048 // envs, seed)


@levels({"game": TEST_GAMES}, {"batch_size": (32, 512, 1_024)})
def dqn_scaling(game: str = "breakout", batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Figure 4, top: batches of 32, 512 and 1,024 at training intensity 8."""
    return _q_curve("dqn", game, batch_size, _DQN_STEP_SIZES, seed)


@levels({"game": TEST_GAMES}, {"batch_size": (32, 256, 512, 1_024, 2_048)})
def c51_scaling(game: str = "breakout", batch_size: int = 2_048, seed: int = 0) -> TrainConfig:
    """Figure 4, bottom: batches of 32 to 2,048; one step size from 256 on."""
    return _q_curve("c51", game, batch_size, _C51_STEP_SIZES, seed)


@levels({"game": Q_LEARNING_GAMES})
def rainbow_512(game: str = "breakout", seed: int = 0) -> TrainConfig:
    """Figure 12: epsilon-Rainbow at a batch of 512, with the published step size."""
    return _q_curve("rainbow", game, 512, _RAINBOW_STEP_SIZES, seed)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def a2c_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2, A2C: 16 environments a GPU, one gradient of all."""
    return _together(_curve("a2c", game, 16 * ranks, 5, seed), ranks)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def ppo_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2, PPO: 8 environments a GPU, a batch of 2,048 in all."""
    return _together(ppo_scaling(game, 8 * ranks, seed), ranks)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8, 16, 32)})
def a3c(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, second row, and Table 2: 1 to 32 learners of 16 environments, A2C's settings unchanged."""
    return _together(_curve("a2c", game, 16, 5, seed), ranks, update="async")


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)}, {"local_updates": (1, 2, 4)})
def appo(game: str = "pong", ranks: int = 8, local_updates: int = 1, seed: int = 0) -> TrainConfig:
    """Figure 3, bottom, and Table 2: learners of 8 environments, 1 to 4 updates between pushes, the gradient's norm
    clipped, a quarter of PPO's step size and no schedule."""
    base = _curve("ppo", game, 8, 256, seed)
    rate = base.algo.learning_rate / 4  # type: ignore[attr-defined]
    algo: Any = replace(
        base.algo, learning_rate=rate, learning_rate_schedule="constant", clip_schedule="constant", clip_grad_norm=0.5
    )  # type: ignore[call-arg]
    return _together(replace(base, algo=algo), ranks, update="async", local_updates=local_updates, pull_steps=64)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4)})
def async_dqn(game: str = "breakout", ranks: int = 4, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.4.1 and Table 3 (*): up to 4 learners, each with a batch of 512."""
    return _together(dqn_scaling(game, batch_size, seed), ranks, update="async")


@levels(Level({"batch_size": (2_048, 64, 256), "secondary": (64, 2_048, 256)}))
def secondary_learner(
    game: str = "breakout", batch_size: int = 2_048, secondary: int = 64, seed: int = 0
) -> TrainConfig:
    """Section 5.4.2, Figures 6 to 8: (64, 2048), (2048, 64) and (256, 256). A step size between those of section 5.4.1
    where the paper names none."""
    config = _q_curve("dqn", game, batch_size, _DQN_STEP_SIZES, seed)
    rate = _step_size(_DQN_STEP_SIZES, secondary)
    return replace(config, secondary=SecondaryConfig(secondary, rate), log=replace(config.log, norms=True))


@levels(
    # RMSProp: 20 times the step size from 64 to 1,024, and two that are too low and too high (appendix C, i and ii);
    # those at 64 and 256 are in the figure alone: 2.5e-4 is DQN's, 1.25e-3 lies between
    Level(
        {
            "rule": ("adam",) * 3 + ("rmsprop",) * 5,
            "batch_size": (64, 256, 1_024, 64, 256, 1_024, 64, 64),
            "learning_rate": (4.2e-4,) * 3 + (2.5e-4, 1.25e-3, 5e-3, 1e-4, 5e-4),
        }
    )
)
def update_rules(
    game: str = "qbert", rule: str = "adam", batch_size: int = 64, learning_rate: float = 4.2e-4, seed: int = 0
) -> TrainConfig:
    """Appendix C, Figure 9: norms of parameters, gradients and steps under Adam and RMSProp, batches of 64 to 1,024
    (RMSProp needed 20 times the step size at the largest)."""
    config = _q_curve("c51", game, batch_size, {batch_size: learning_rate}, seed)
    algo: Any = replace(config.algo, rule=rule)  # type: ignore[call-arg]
    return replace(config, algo=algo, log=replace(config.log, norms=True))


def figure_5() -> Grid:
    """The policy gradients on a whole machine of 8 GPUs (section 5.5: A2C with 256 environments; the others' sizes are
    in the figure alone, these are the same for the asynchronous ones)."""
    return _grid_of(TEST_GAMES, "a2c-256env", "a3c-16env-16", "ppo-64env", "appo-8env-8")


def figure_10() -> Grid:
    """A2C: the baseline of 16 environments, and the scaled ones, synchronous and asynchronous."""
    return _grid_of(POLICY_GRADIENT_GAMES, "a2c-16env", "a2c-256env", "a3c-16env-16")


def figure_11() -> Grid:
    """PPO: the baseline of 8 environments, and the scaled ones, synchronous and asynchronous."""
    return _grid_of(POLICY_GRADIENT_GAMES, "ppo-8env", "ppo-64env", "appo-8env-8")


def figure_12() -> Grid:
    """DQN at a batch of 512, Categorical DQN at 2,048, epsilon-Rainbow at 512."""
    return _grid_of(Q_LEARNING_GAMES, *_SCALED_Q)


@levels({"gpus": (1, 2, 4, 8)}, {"algorithm": ("a2c", "a3c", "ppo", "appo")}, seeds=(0,))
def table_2(gpus: int = 1, algorithm: str = "a2c", seed: int = 0) -> TrainConfig:
    """Hours for 50 M env steps, policy gradients by number of GPUs: 16 environments a GPU for A2C and A3C, 8 for PPO
    and APPO. One sweep for each number: `--only gpus=4 --gpus-per-run 4`. The paper does not name the game; Breakout is
    that of section 5.2."""
    make: Any = {"a2c": a2c_ranks, "a3c": a3c, "ppo": ppo_ranks, "appo": appo}[algorithm]
    config: TrainConfig = make(game="breakout", ranks=gpus, seed=seed)
    return config


@levels({"gpus": (1, 2, 4, 8)}, {"algorithm": ("dqn-512", "rainbow-512", "c51-2048")}, seeds=(0,))
def table_3(gpus: int = 1, algorithm: str = "dqn-512", seed: int = 0) -> TrainConfig:
    """Hours for 50 M env steps, Q-learning by number of GPUs, synchronous: `--only gpus=4 --gpus-per-run 4`."""
    return _together(_named("breakout", algorithm, seed), gpus)


def _grid_of(games: Sequence[str], *algorithms: str) -> Grid:
    return grid(_named, {"game": games}, {"algorithm": algorithms}, seeds=(0, 1))


def _named(game: str, algorithm: str, seed: int) -> TrainConfig:
    """A configuration by a name as in the paper's figures: a2c-256env, dqn-512; a3c-16env-8: 8 learners of 16."""
    name, size, *learners = algorithm.split("-")
    if name in ("a3c", "appo"):
        return {"a3c": a3c, "appo": appo}[name](game=game, ranks=int(learners[0]), seed=seed)
    if size.endswith("env"):
        return {"a2c": a2c_scaling, "ppo": ppo_scaling}[name](game, int(size.removesuffix("env")), seed)
    return _q_curve(name, game, int(size), _SCALED_Q[algorithm], seed)


_DQN_STEP_SIZES = {32: 2.5e-4, 512: 7.5e-4, 1_024: 15e-4}  # section 5.4.1
_C51_STEP_SIZES = {32: 2.5e-4, 256: 4.2e-4}  # section 5.4.1; Bellemare et al. 2017 at 32
_RAINBOW_STEP_SIZES = {512: 6.25e-5}  # section 5.4.1: the published one
_SCALED_Q = {"dqn-512": _DQN_STEP_SIZES, "c51-2048": _C51_STEP_SIZES, "rainbow-512": _RAINBOW_STEP_SIZES}


def _step_size(known: dict[int, float], batch_size: int) -> float:
    """That of the largest batch not above this one."""
    return known[max((b for b in known if b <= batch_size), default=min(known))]


def _q_curve(algorithm: str, game: str, batch_size: int, step_sizes: dict[int, float], seed: int) -> TrainConfig:
    base = default_config(algorithm)
    rate = _step_size(step_sizes, batch_size)
    algo: Any = replace(base.algo, batch_size=batch_size, learning_rate=rate)  # type: ignore[call-arg]
    return replace(base, env=replace(base.env, game=game), algo=algo, env_steps=STEPS, seed=seed)


def _together(config: TrainConfig, ranks: int, **group: Any) -> TrainConfig:
    if ranks < 1:
        raise ValueError(f"ranks={ranks} must be at least 1")
    return replace(config, group=replace(config.group, ranks=ranks, **group))


def _curve(algorithm: str, game: str, envs: int, horizon: int, seed: int) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, game=game),
        algo=replace(base.algo, minibatch=512) if algorithm == "ppo" else base.algo,
        sampler=replace(base.sampler, envs=envs, horizon=horizon),
        env_steps=STEPS,
        seed=seed,
    )
