"""Displays a run's settings, score, learning curve and videos in a notebook."""

import base64
import html
import os
from pathlib import Path
from typing import Any

from accel_rl.metrics.nested import flat
from accel_rl.metrics.plot import columns_of, drawn, gather
from accel_rl.report.labels import labelled
from accel_rl.results.run_settings import defaults
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError

MOST_VIDEO = 30 * 2**20
"""Videos of more than MOST_VIDEO bytes are not copied into the notebook's file."""


class Picture(bytes):
    """A PNG picture that a notebook displays."""

    def _repr_png_(self) -> bytes:
        return self

    def __repr__(self) -> str:
        return f"Picture of {len(self):,} bytes"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the PNG to a file."""
        Path(path).write_bytes(self)
        return Path(path)


class Video(type(Path())):  # type: ignore[misc]  # Path is an abstract class before Python 3.12.
    """The path of a video that a notebook displays."""

    def _repr_html_(self) -> str:
        if self.stat().st_size > MOST_VIDEO:
            return f"<code>{html.escape(str(self))}</code> ({self.stat().st_size / 2**20:.0f} MiB)"
        data = base64.b64encode(self.read_bytes()).decode()
        if self.suffix == ".gif":
            return f'<img src="data:image/gif;base64,{data}" alt="an episode">'
        return f'<video controls loop src="data:video/mp4;base64,{data}"></video>'


def curve(path: Path, config: TrainConfig, y: str, x: str) -> Picture:
    """Return a plot of the column `y` of metrics.csv over the column `x`. Raises ConfigError if the column has no
    values yet."""
    return Picture(drawn(gather(columns_of([path], x, y), labelled([config.to_dict()])), x, y))


def run_html(path: Path, config: TrainConfig, metrics: dict[str, Any]) -> str:
    rows = {"run": str(path), "algorithm": config.algorithm, "environment": config.env.game or config.env.id}
    rows["seed"] = str(config.seed)
    rows["settings"] = ", ".join(changed_settings(config)) or "the defaults"
    last = {name: next((v for v in values[::-1] if v == v), None) for name, values in metrics.items()}
    rows["env steps"] = f"{int(last.get('env_steps') or 0):,} of {config.env_steps:,}"
    for name, title in (("score", "score"), ("eval_score", "last evaluation"), ("wall_s", "minutes")):
        if (value := last.get(name)) is not None:
            rows[title] = f"{value / 60:.1f}" if name == "wall_s" else f"{value:.1f}"
    cells = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    try:
        png = base64.b64encode(curve(path, config, "score", "env_steps")).decode()
    except ConfigError:  # Before the first episode has ended, there is no curve.
        return f"<table>{cells}</table>"
    return f'<table>{cells}</table><img width="480" src="data:image/png;base64,{png}" alt="score by env steps">'


def changed_settings(config: TrainConfig) -> list[str]:
    """`name=value` of the settings that differ from the algorithm's defaults, except settings that other rows of the
    notebook's table contain."""
    usual, values = defaults(config.algorithm), dict(flat(config.to_dict()))
    shown = {"env.game", "env.id", "seed", "env_steps", "run_dir"}
    changed = [name for name, value in values.items() if usual and name not in shown and value != usual.get(name)]
    return [f"{name}={values[name]}" for name in changed]
