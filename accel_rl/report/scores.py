"""The table of scores of each game and setting, next to published scores."""

import statistics as stats
from collections.abc import Sequence

import numpy as np

from accel_rl.report.curves import Settings
from accel_rl.report.papers import percent, published
from accel_rl.report.table import Table, number

NAMES = {"random": "Random", "human": "Human", "dqn": "DQN", "gorila": "Gorila", "daley": "Daley & Amato"}


def scores_table(settings: Settings, which: str) -> Table:
    """Build a row for each game and setting: score, deviation over seeds, human-normalised score, published scores."""
    rows = []
    games = list(dict.fromkeys(g for found in settings.values() for g in found))
    for game in sorted(games):
        row = published(game)
        for setting, found in settings.items():
            scored = [r for r in found.get(game, ()) if not np.isnan(r.score(which))]
            values = [r.score(which) for r in scored]
            if not values:
                continue
            mean = float(np.mean(values))
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            rows.append(
                [
                    game,
                    setting,
                    str(len(values)),
                    number(stats.mean(r.env_steps for r in scored), 0),
                    "evaluation" if scored[0].evaluated and which != "online" else "training",
                    _episodes([r.episodes_of(which) for r in scored]),
                    number(mean),
                    number(spread),
                    number(percent(game, mean), 1) if row else "",
                    *(number(row.get(name)) for name in NAMES),
                ]
            )
    columns = ["game", "setting", "seeds", "env steps", "played in", "episodes", "score", "deviation", "%"]
    note = (
        f"Score: the {which} score of each run, mean over seeds; episodes: of the evaluation of each run, among which "
        "those of few episodes do not count; deviation: standard deviation over seeds (n - 1). "
        "%: 100 (score - random) / (human - random). Published scores: null-op starts, see the last tables."
    )
    return Table("scores", "Scores", [*columns, *NAMES.values()], rows, note)


def _episodes(counts: Sequence[int | None]) -> str:
    known = [n for n in counts if n is not None]
    if not known:
        return ""
    return f"{min(known)}" if min(known) == max(known) else f"{min(known)} to {max(known)}"
