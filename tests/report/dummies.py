"""Run folders with the files of a finished training, written without training."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from accel_rl.settings.train import TrainConfig, default_config


def dummy(
    folder: Path,
    game: str = "pong",
    seed: int = 0,
    algorithm: str = "a2c",
    scores: tuple[float, ...] = (-20.0, 0.0, 10.0),
    evaluations: dict[int, float] | None = None,
    env_steps: int = 3_000,
    **sampler: int,
) -> Path:
    """Write a run with rows of metrics at equal distances in env steps. `evaluations` maps a row to an evaluation's
    score."""
    base = default_config(algorithm)
    config = replace(
        base, env=replace(base.env, game=game), env_steps=env_steps, seed=seed, sampler=replace(base.sampler, **sampler)
    )
    return write_run(
        folder, config, scores=scores, eval_score=[(evaluations or {}).get(i, "") for i in range(len(scores))]
    )


def write_run(
    folder: Path,
    config: TrainConfig,
    rate: float = 500.0,
    settings: Mapping[str, object] | None = None,
    scores: Sequence[object] = (),
    **columns: Sequence[object],
) -> Path:
    """Write a run with one row of metrics per score, at equal distances in env steps.

    `rate` is in env steps/s. `columns` are further columns of metrics.csv. `settings` replace settings in config.json.
    """
    folder.mkdir(parents=True)
    values = replace(config, run_dir=str(folder)).to_dict() | dict(settings or {})
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "protocol.json").write_text(json.dumps({"name": config.env.protocol}))
    with open(folder / "metrics.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["env_steps", "score", "wall_s", *columns])
        for i, score in enumerate(scores):
            steps = config.env_steps * (i + 1) // len(scores)
            writer.writerow([steps, score, steps / rate, *(c[i] for c in columns.values())])
    return folder


def write_sweep(folder: Path, experiment: str) -> Path:
    """Write a sweep's file sweep.json into a folder of runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps({"experiment": experiment, "runs": {}}))
    return folder
