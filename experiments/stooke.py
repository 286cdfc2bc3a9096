"""Stooke & Abbeel 2018 (arXiv:1803.02811): many simulators (section 5.3) and large batches (section 5.4).

| in the paper | here |
|---|---|
| Figure 2, Table 1: sampling | `experiments.sampling` |
| Figure 3: A2C, A3C, PPO, asynchronous PPO | `a2c_scaling`, `a3c_scaling`, `ppo_scaling`, `appo_communication` |
| Figure 4: DQN, Categorical DQN | `dqn_scaling`, `c51_scaling` |
| Figure 5: a whole machine for one run | `figure_5` |
| Figures 6 to 8: secondary learner | `secondary_learner`, drawn by `experiments.norms` |
| Figure 9: update rules | `update_rules`, drawn by `experiments.norms` |
| Figures 10, 11, 12: more games | `figure_10`, `figure_11`, `figure_12` |
| Tables 2, 3: hours | `table_2`, `table_3` (the report's throughput table) |

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


@levels({"game": TEST_GAMES}, {"learners": (1, 2, 4, 8, 16, 32)})
def a3c_scaling(game: str = "pong", learners: int = 16, seed: int = 0) -> TrainConfig:
    """Figure 3, second row: 1 ... 32 asynchronous learners of 16 environments, no setting changed (section 5.3; above 8
    they shared GPUs). One learner is A2C."""
    return _asynchronous(a2c_scaling(game, 16, seed), learners)


@levels({"game": TEST_GAMES}, {"updates": (1, 2, 4)})
def appo_communication(game: str = "pong", updates: int = 1, learners: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, bottom: 8 asynchronous learners of 8 environments with 1 to 4 local updates between pushes. As PPO, but
    gradients are clipped, the step size is a quarter and constant, and parameters are pulled every 64 steps."""
    ppo = ppo_scaling(game, 8, seed)
    algo: Any = ppo.algo
    algo = replace(
        algo,
        learning_rate=algo.learning_rate / 4,  # section 5.3
        learning_rate_schedule="constant",  # section 5.3
        clip_grad_norm=0.5,  # the text names no norm: that of A2C
    )
    config = _asynchronous(replace(ppo, algo=algo), learners)
    return replace(config, group=replace(config.group, local_updates=updates, pull_steps=64))


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
    each = 16 if algorithm in ("a2c", "a3c") else 8
    if algorithm in ("a3c", "appo"):
        return _named("breakout", f"{algorithm}-{each}env-{gpus}", seed)
    return _in_step(_named("breakout", f"{algorithm}-{each * gpus}env", seed), gpus)


@levels({"gpus": (1, 2, 4, 8)}, {"algorithm": ("dqn-512", "rainbow-512", "c51-2048")}, seeds=(0,))
def table_3(gpus: int = 1, algorithm: str = "dqn-512", seed: int = 0) -> TrainConfig:
    """Hours for 50 M env steps, Q-learning by number of GPUs, synchronous: `--only gpus=4 --gpus-per-run 4`."""
    return _in_step(_named("breakout", algorithm, seed), gpus)


def _grid_of(games: Sequence[str], *algorithms: str) -> Grid:
    return grid(_named, {"game": games}, {"algorithm": algorithms}, seeds=(0, 1))


def _named(game: str, algorithm: str, seed: int) -> TrainConfig:
    """A configuration by a name as in the paper's figures: a2c-256env, dqn-512; a3c-16env-8: 8 learners of 16."""
    name, size, *learners = algorithm.split("-")
    if name in ("a3c", "appo"):
        n = int(learners[0])
        return a3c_scaling(game, n, seed) if name == "a3c" else appo_communication(game, 1, n, seed)
    if size.endswith("env"):
        return {"a2c": a2c_scaling, "ppo": ppo_scaling}[name](game, int(size.removesuffix("env")), seed)
    return _q_curve(name, game, int(size), _SCALED_Q[algorithm], seed)


def _asynchronous(config: TrainConfig, learners: int) -> TrainConfig:
    """Each learner as `config` has it. Locked chunks: 3 (the paper's published code; a small number, section 4.3)."""
    if learners == 1:
        return config
    return replace(config, group=replace(config.group, ranks=learners, update="async", chunks=3))


def _in_step(config: TrainConfig, ranks: int) -> TrainConfig:
    """The same, divided among ranks that update together."""
    return replace(config, group=replace(config.group, ranks=ranks)) if ranks > 1 else config


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


def _curve(algorithm: str, game: str, envs: int, horizon: int, seed: int) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, game=game),
        sampler=replace(base.sampler, envs=envs, horizon=horizon),
        env_steps=STEPS,
        seed=seed,
    )
