"""Aggregates over games, and performance profiles, of each setting and of the papers."""

from collections.abc import Mapping

import numpy as np

from accel_rl.report.curves import Settings
from accel_rl.report.papers import percent, published
from accel_rl.report.statistics import TAUS, Summary, matrix
from accel_rl.report.table import Table, number

PAPERS = {"dqn": "DQN (Mnih et al. 2015)", "gorila": "Gorila (Nair et al. 2015)", "daley": "Daley & Amato 2021"}
Matrices = Mapping[str, tuple[list[str], np.ndarray]]


def normalised(settings: Settings, which: str) -> Matrices:
    """Return {label: (games, human-normalised scores [seeds, games])} of each setting and of the papers.

    The papers' scores are over all games of the settings.
    """
    matrices: dict[str, tuple[list[str], np.ndarray]] = {}
    for setting, found in settings.items():
        games, scores = matrix(found, which)
        if scores.size:
            matrices[setting] = (games, scores)
    ours = sorted({g for games, _ in matrices.values() for g in games})
    for name, label in PAPERS.items() if ours else ():
        matrices[label] = (ours, np.array([[percent(g, published(g)[name]) / 100 for g in ours]]))
    return matrices


def aggregates_table(matrices: Matrices, found: Mapping[str, Summary]) -> Table:
    rows = []
    for label, s in found.items():
        games, scores = matrices[label]
        cells = [number(100 * x, 1) for v in (s.median, s.iqm) for x in (v.value, v.low, v.high)]
        rows.append([label, str(len(games)), str(len(scores)), *cells])
    columns = ["setting", "games", "seeds", "median %", "low", "high", "IQM %", "low", "high"]
    note = (
        "Human-normalised, over the games with published scores. Median over games of the mean over seeds; "
        "interquartile mean over all runs; 95 % intervals by a bootstrap over seeds, stratified by game (rliable); no "
        "interval for one seed. Rows of papers: the printed scores, over all games that any setting has. Rows over "
        "different games are not comparable."
    )
    return Table("aggregates", "Aggregates over games", columns, rows, note)


def profiles_table(found: Mapping[str, Summary]) -> Table:
    rows = [
        [label, number(100 * t, 0), number(share, 4), number(low, 4), number(high, 4)]
        for label, s in found.items()
        for t, share, low, high in zip(TAUS, s.share, s.share_low, s.share_high, strict=True)
    ]
    return Table("profiles", "Performance profiles", ["setting", "t %", "share above", "low", "high"], rows)
