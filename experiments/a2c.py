"""A2C on one game, at the paper's size and at a laptop's.

`python -m experiments.a2c pong_cpu --run-dir RUN` trains one of them; `accel-rl plot RUN` draws the curve.
"""

import dataclasses
import sys
from pathlib import Path

from accel_rl.process import before_torch

before_torch()

from accel_rl.config import EvaluationConfig, SamplerConfig, TrainConfig, default_config  # noqa: E402


def pong_cpu(seed: int = 1) -> TrainConfig:
    """Pong from about -21 to above 0 on a CPU: Stooke & Abbeel 2018, section 5.3, 16 environments, 4 M env steps."""
    base = default_config("a2c")
    return dataclasses.replace(
        base,
        env=dataclasses.replace(base.env, game="pong"),
        env_steps=4_000_000,
        seed=seed,
        evaluation=EvaluationConfig(interval=1_000_000, steps=20_000),
    )


def a2c_scaling(game: str = "pong", envs: int = 16, seed: int = 0) -> TrainConfig:
    """Stooke & Abbeel, Figure 3, top: 16 ... 512 environments, horizon 5, step size with the root of the batch."""
    base = default_config("a2c")
    return dataclasses.replace(
        base,
        env=dataclasses.replace(base.env, game=game),
        sampler=SamplerConfig(envs=envs, horizon=5),
        env_steps=50_000_000,
        seed=seed,
    )


def main(argv: list[str]) -> int:
    from accel_rl.commands import launch

    names = {"pong_cpu": pong_cpu, "a2c_scaling": a2c_scaling}
    if not argv or argv[0] not in names or (len(argv) > 1 and (len(argv) != 3 or argv[1] != "--run-dir")):
        print(f"usage: python -m experiments.a2c {{{','.join(names)}}} [--run-dir RUN]", file=sys.stderr)
        return 2
    return launch(names[argv[0]](), Path(argv[2]) if len(argv) == 3 else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
