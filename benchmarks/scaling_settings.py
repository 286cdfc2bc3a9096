"""Settings of `benchmarks.scaling`, and the experiments behind the rows of its tables."""

from dataclasses import dataclass

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError

STEPS = 50_000_000
RUNS: dict[int, dict[str, tuple[str, bool]]] = {  # table -> row -> (experiment, asynchronous)
    2: {
        "A2C": ("a2c_ranks", False),
        "A3C": ("a3c", True),
        "PPO": ("ppo_ranks", False),
        "APPO": ("appo", True),
    },
    3: {
        "DQN-512": ("dqn_scaling", False),
        "DQN-512 *": ("async_dqn", True),
        "e-RAINBOW-512": ("rainbow_512", False),
        "CAT-DQN-2048": ("c51_scaling", False),
    },
}


@dataclass(frozen=True)
class Options:
    tables: tuple[int, ...] = (2,)
    """Tables to measure: 1, 2 or 3."""
    ranks: tuple[int, ...] = (1, 2)
    """Numbers of ranks (the paper: 1 2 4 8 GPUs)."""
    gpus: str = ""
    """GPUs, such as 0,1; a run uses one for each rank. Default: none."""
    game: str = "breakout"
    """Atari game."""
    simulators: tuple[int, ...] = (64, 128, 256, 512)
    """Table 1: total numbers of simulators."""
    seconds: float = 30.0
    """Length of one measurement, after the start."""
    repeats: Count = 3
    """Number of measurements of each variant, in turns; medians are reported."""
    fill: Count = 4_096
    """Table 3: env steps with random actions before learning starts."""
    patience: float = 600.0
    """Seconds until the second round of learning; a slower case is abandoned."""
    only: tuple[str, ...] = ()
    """Rows of Tables 2 and 3, such as A2C DQN-512. Default: all."""
    json: str = ""
    """Also write everything to this file."""


def check(o: Options) -> None:
    for t in o.tables:
        if t not in (1, 2, 3):
            raise ConfigError(f"--tables {t}: must be of 1, 2, 3")
    if not o.ranks or min(o.ranks) < 1 or o.repeats < 1 or not o.seconds > 0:
        raise ConfigError(f"--ranks {o.ranks} --repeats {o.repeats} --seconds {o.seconds}: at least 1, and above 0")
    if not o.patience > 0:
        raise ConfigError(f"--patience {o.patience}: must be above 0")
    names = [name for t in o.tables if t > 1 for name in RUNS[t]]
    for name in o.only:
        if name not in names:
            raise ConfigError(f"--only {name}: must be of {', '.join(names) or 'Tables 2 and 3'}")
    for n in o.simulators if 1 in o.tables else ():
        if n < 1 or n % (2 * max(o.ranks)):
            raise ConfigError(f"--simulators {n}: must divide by 2 groups x {max(o.ranks)} ranks")
    if 2 in o.tables and any(256 % r for r in o.ranks):
        raise ConfigError(f"--ranks {o.ranks}: PPO's batch of 2,048 must divide; powers of 2 up to 256")
