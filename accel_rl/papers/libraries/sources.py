"""The published scores of libraries and papers: sources.json describes each source, scores.csv has scores after one
number of env steps, and curves.csv has scores after several numbers of env steps."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

FOLDER = files("accel_rl.papers") / "libraries"
Kind = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Points:
    """The published scores `mean` [n] of one game after `env_steps` [n] (ascending). `deviation` [n] is the standard
    deviation over seeds, or NaN if it was not published."""

    env_steps: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


@dataclass(frozen=True)
class Source:
    """A table or a set of curves that a library or a paper has published for one algorithm, with or without an LSTM.

    Only runs with the settings `settings` are compared with this source. `protocol` names the rules of the source's
    environment, and is "" if the source does not state them. `differs` lists differences from the rules `protocol`, if
    no protocol describes the source's rules exactly. `seeds` is None if the number of seeds is not published.
    `averaged` describes over which episodes a score is averaged: with `window` above 0, over those of the last `window`
    env steps. `where` is the repository or paper with the scores.
    """

    source: str
    algorithm: str
    lstm: bool
    protocol: str
    kind: Kind
    seeds: int | None
    averaged: str
    where: str
    differs: tuple[str, ...]
    window: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    games: Mapping[str, Points] = field(default_factory=dict)


@cache
def read_sources() -> tuple[Source, ...]:
    """Return the sources in the order of sources.json."""
    points = _read_scores() | _read_curves()
    result = []
    for row in json.loads((FOLDER / "sources.json").read_text())["sources"]:
        steps = row.pop("env_steps")
        games = points[row["source"]]
        if steps is not None:
            games = {g: Points(np.array([steps], float), p.mean, p.deviation) for g, p in games.items()}
        result.append(Source(**{**row, "differs": tuple(row["differs"])}, games=games))
    return tuple(result)


def _read_scores() -> dict[str, dict[str, Points]]:
    """{source: {game: points}}. scores.csv contains no env steps, so the env steps of the points are 0."""
    result: dict[str, dict[str, Points]] = {}
    for row in _rows("scores.csv"):
        pair = [np.array([float(row[name] or "nan")]) for name in ("mean", "deviation")]
        result.setdefault(row["source"], {})[row["game"]] = Points(np.zeros(1), *pair)
    return result


def _read_curves() -> dict[str, dict[str, Points]]:
    """{source: {game: points}}"""
    result: dict[str, dict[str, Points]] = {}
    for row in _rows("curves.csv"):
        source, game = row.pop("source"), row.pop("game")
        pairs = np.array([[float(x) for x in cell.split("|")] for cell in row.values()])
        points = Points(np.array(list(row), float), pairs[:, 0], pairs[:, 1])
        result.setdefault(source, {})[game] = points
    return result


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((FOLDER / name).read_text().splitlines()))
