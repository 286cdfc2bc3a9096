"""Tables of the scores of each game and setting, together with published scores."""

import math
import statistics as stats
from collections.abc import Sequence

import numpy as np

from accel_rl.envs.atari_games import GAMES, OF_HUMAN, human_normalized, human_scale
from accel_rl.papers.paper import reported_papers
from accel_rl.papers.published import published
from accel_rl.results import run_settings
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import FULL_LENGTH, BySetting

PAPERS = {"dqn": "DQN", "gorila": "Gorila", "daley": "Daley & Amato"}


def scores_table(settings: BySetting, which: str, human: str = "wang2016") -> Table:
    """A table with a row for each game and setting: score, standard deviation over seeds, human-normalised score, and
    published scores."""
    rows = []
    games = list(dict.fromkeys(g for result in settings.values() for g in result))
    for game in sorted(games):
        row = published(game)
        scale = human_scale(game, human)
        for setting, result in settings.items():
            scored = [r for r in result.get(game, ()) if not np.isnan(r.score(which))]
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
                    number(human_normalized(game, mean, human), 1) if scale else "",
                    *(number(x) for x in scale or (None, None)),
                    *(number(row.get(name)) for name in PAPERS),
                ]
            )
    columns = ["game", "setting", "seeds", "env steps", "played in", "episodes", "score", "deviation", OF_HUMAN[human]]
    columns += ["Random", "Human", *PAPERS.values()]
    note = (
        f"Score: the {which} score of each run, mean over seeds; episodes: of the evaluation of each run, among which "
        "those of few episodes do not count; deviation: standard deviation over seeds (n - 1). "
        f"{OF_HUMAN[human]}: 100 (score - random) / (human - random), with random and human scores of {human}. "
        "Published scores: null-op starts; of the papers, see the last tables."
    )
    return Table("scores", "Scores", columns, rows, note).without_empty(columns[-6:])


def _episodes(counts: Sequence[int | None]) -> str:
    known = [n for n in counts if n is not None]
    if not known:
        return ""
    return f"{min(known)}" if min(known) == max(known) else f"{min(known)} to {max(known)}"


def throughput_table(settings: BySetting) -> Table:
    """A table of env steps/s and the hours for 50 M env steps, together with the hours that the papers report."""
    papers = {paper.name: paper for paper in reported_papers() if paper.hours}
    rows = []
    for setting, result in settings.items():
        for game, runs in sorted(result.items()):
            timed = [r for r in runs if not math.isnan(r.steps_per_s) and r.part <= 1]
            if not timed:
                continue
            rates = [r.steps_per_s for r in timed]
            rate = stats.mean(rates)
            rows.append(
                [
                    setting,
                    timed[0].games,
                    str(len(rates)),
                    number(rate, 0),
                    number(stats.stdev(rates), 0) if len(rates) > 1 else "",
                    number(FULL_LENGTH / rate / 3600, 2) if game in GAMES else "",
                    *(number(paper.hours(timed[0].settings)) for paper in papers.values()),  # type: ignore[misc]
                    _differences(timed[0].settings),
                ]
            )
    columns = ["setting", "game", "runs", "env steps/s", "deviation", "hours for 50 M"]
    compared = [*papers, "differs from the paper"]
    note = (
        "Whole runs, evaluations and checkpoints included, on the cores and GPUs of each run; next to them the papers' "
        "hours, if printed, and the settings in which the runs differ from the papers'."
    )
    note += "".join(f" {name}: {paper.hours_note}." for name, paper in papers.items())
    table = Table("throughput", "Throughput", [*columns, *compared], rows, note)
    return table.without_empty([columns[-1], *compared])


def _differences(settings: run_settings.Settings) -> str:
    texts = {paper.name: ", ".join(paper.differences(settings)) for paper in reported_papers()}
    return "; ".join(f"{paper}: {text}" for paper, text in texts.items() if text)
