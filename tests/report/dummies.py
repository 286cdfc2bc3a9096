"""Run folders as training leaves them, without training."""

import csv
import json
from dataclasses import replace
from pathlib import Path

from accel_rl.config import default_config


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
    """A run with a row for each score, evenly over its length; `evaluations`: {row: score}."""
    base = default_config(algorithm)
    config = replace(
        base,
        env=replace(base.env, game=game),
        env_steps=env_steps,
        seed=seed,
        sampler=replace(base.sampler, **sampler),
        run_dir=str(folder),
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    (folder / "protocol.json").write_text(json.dumps({"name": "stooke2018"}))
    with open(folder / "metrics.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["env_steps", "score", "eval_score", "wall_s"])
        for i, score in enumerate(scores):
            steps = env_steps * (i + 1) // len(scores)
            writer.writerow([steps, score, (evaluations or {}).get(i, ""), steps / 500])
    return folder
