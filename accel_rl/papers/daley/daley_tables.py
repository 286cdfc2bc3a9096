"""Tables 1 to 4 of Daley & Amato 2021 for given runs, in the paper's layout, next to the paper's numbers."""

import math
import statistics as stats
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.papers.paper import Paper
from accel_rl.papers.published import percent_of, published_by, wanted
from accel_rl.results.run_settings import Settings, asynchronous, differences, plays_atari, ranks
from accel_rl.results.section import Section
from accel_rl.results.table import Pair, Table, alike, marked, number, paper_table, sentence
from accel_rl.results.trained_run import BySetting, TrainedRun

MNIH = "mnih2015"  # Daley & Amato use the protocol of Mnih et al. 2015.
TITLE = "Daley & Amato 2021, table {}"
BASE = ("1", "standard")  # Tables 2 and 3 are relative to one thread and the standard variant.
HUMAN_LEVEL = 75  # A run is at human level in a game if its human-normalized score is above 75 % (section 5.2).
Hours = Mapping[tuple[str, str], list[float]]  # Maps the cell (threads, variant) of a table to the hours of its runs.


def speed_tables(runs: Sequence[TrainedRun]) -> list[Table]:
    """Tables 1 to 3, for each number of threads and variant: the hours for 50 M env steps, the hours in percent, and
    the speed-up. Tables 2 and 3 are relative to the standard variant with one thread. The paper's runs were not
    evaluated, so runs with evaluations are used only if all runs have evaluations."""
    timed = [r for r in runs if daley_cell(r.settings) and not math.isnan(hours_counted(r))]
    measured = [r for r in timed if not r.settings.get("evaluation.interval")] or timed
    cells: dict[tuple[str, str], list[TrainedRun]] = {}
    for run in measured:
        cells.setdefault(daley_cell(run.settings), []).append(run)  # type: ignore[arg-type]
    if not cells:
        return []
    groups = {cell: alike(same, daley_differences) for cell, same in cells.items()}
    hours = {cell: [hours_counted(r) for r in group.runs] for cell, group in groups.items()}
    marks = {cell: group.mark for cell, group in groups.items()}
    printed = published_by("daley")
    games = ", ".join(sorted({r.game for r in measured}))
    note = (
        f"Own: wall time times 50 M / env steps, of {games}, after the random start, as the paper counts: mean and "
        "standard deviation (n - 1) over the runs of a "
        f"cell{_counted(hours)}. The paper: {printed['table_1']['unit']}; {printed['table_1']['machine']}."
    )
    if any(r.evaluated for r in measured):
        note += " The hours of own runs include the time of their evaluations; the paper's runs were not evaluated."
    note += marked(groups.values(), daley_differences)
    if BASE not in hours:
        note += " Tables 2 and 3 need the standard variant with one thread, which was not run."
    result = [_speed_table(1, hours, marks, _mean_and_deviation, lambda c: f"{c[0]:.2f} +- {c[1]:.2f}", note)]
    if base := stats.mean(hours.get(BASE, [0.0])):
        for i, formula, digits in (
            (2, lambda h: 100 * stats.mean(h) / base, 1),
            (3, lambda h: base / stats.mean(h), 2),
        ):
            unit = printed[f"table_{i}"]["unit"]
            result.append(
                _speed_table(
                    i,
                    hours,
                    marks,
                    lambda h, f=formula, d=digits: number(f(h), d),
                    partial(number, digits=digits),
                    unit,
                )
            )
    return result


def hours_counted(run: TrainedRun) -> float:
    """Hours of a run, without the time of the random actions that fill the replay (Algorithm 1)."""
    return run.hours_past(float(run.settings.get("algo.replay.start", 0)))


def _counted(hours: Hours) -> str:
    fewest, most = min(map(len, hours.values())), max(map(len, hours.values()))
    return f" ({fewest if fewest == most else f'{fewest} to {most}'} each)"


def _mean_and_deviation(hours: Sequence[float]) -> str:
    return f"{stats.mean(hours):.2f}" + (f" +- {stats.stdev(hours):.2f}" if len(hours) > 1 else "")


def _speed_table(
    i: int,
    hours: Hours,
    marks: Mapping[tuple[str, str], str],
    formula: Callable[..., str],
    theirs: Callable[..., str],
    note: str,
) -> Table:
    names = published_by("daley")["table_1"]["columns"]
    rows: dict[str, list[Pair]] = {
        threads: [
            (
                formula(hours[threads, name]) + marks[threads, name] if (threads, name) in hours else "",
                "-" if c is None else theirs(c),
            )
            for name, c in zip(names, cells, strict=True)
        ]
        for threads, cells in published_by("daley")[f"table_{i}"]["threads"].items()
    }
    return paper_table(f"daley_table_{i}", TITLE.format(i), "threads", names, rows, note)


def suite_tables(settings: BySetting) -> list[tuple[Table, Table]]:
    """Table 4, and a table with the counts of section 5.2, for each DQN setting that was evaluated by the protocol of
    Mnih et al. 2015."""
    result: list[tuple[Table, Table]] = []
    for setting, games in settings.items():
        played = {g: same for g in ATARI_49 if (same := [r for r in games.get(g, ()) if _is_of_suite(r)])}
        if played:
            suffix = f"_{len(result) + 1}" if result else ""
            result.append((_suite_table(setting, played, suffix), _counts_table(played, suffix)))
    return result


def _is_of_suite(run: TrainedRun) -> bool:
    return run.evaluated and is_daleys_dqn(run.settings) and run.settings.get("env.protocol") == MNIH


def best(runs: Sequence[TrainedRun]) -> tuple[float, float, int]:
    """Return (mean over runs, standard deviation over episodes, number of episodes) of the scores in the best
    evaluation of each run."""
    means = []
    variances = []
    episodes = 0
    for run in runs:
        i = run.chosen("best")
        means.append(run.evaluations[1][i])
        known = len(run.deviations[1]) == len(run.evaluations[1])
        variances.append(run.deviations[1][i] ** 2 if known else math.nan)
        episodes += run.episodes_of("best") or 0
    mean = float(np.mean(means))
    return mean, math.sqrt(float(np.mean(variances)) + float(np.var(means))), episodes


def _suite_table(setting: str, played: Mapping[str, Sequence[TrainedRun]], suffix: str) -> Table:
    rows, counts = [], set()
    for game, runs in played.items():
        random, human, dqn, dqn_std, theirs, theirs_std, dqn_percent, their_percent = _printed(game)
        score, deviation, episodes = best(runs)
        counts.add(episodes)
        scores = (_with_std(dqn, dqn_std), _with_std(theirs, theirs_std), _with_std(score, deviation))
        percents = (dqn_percent, their_percent, percent_of(score, random, human))
        rows.append([game, number(random), number(human), *scores, *(number(p, 1) for p in percents)])
    columns = ["game", "Random", "Human", "DQN", "Daley & Amato", "Ours", "DQN %", "Daley & Amato %", "Ours %"]
    episodes_text = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    seeds = sorted({len(runs) for runs in played.values()})
    note = (
        f"Ours: {setting}. The best evaluation of each run, with the standard deviation over its episodes: "
        f"{episodes_text} here, 30 in the paper; mean over {', '.join(map(str, seeds))} runs a game, one in the paper. "
        "Percent: 100 (score - random) / (human - random). The paper's scores, with Random, Human and DQN, as printed."
    )
    runs_of_all = [r for runs in played.values() for r in runs]
    note += sentence(runs_of_all, daley_score_differences, "Differs from the paper")
    return Table(f"daley_table_4{suffix}", TITLE.format(4) + f" ({setting})", columns, rows, note)


def _counts_table(played: Mapping[str, Sequence[TrainedRun]], suffix: str) -> Table:
    ours = {game: best(runs)[0] for game, runs in played.items()}
    level = {g: percent_of(s, *_printed(g)[:2]) >= HUMAN_LEVEL for g, s in ours.items()}
    above = {g: s > _printed(g)[2] for g, s in ours.items()}
    text = published_by("daley")["table_4"]["counts"]
    n = str(len(ours))

    def human_level(games: Sequence[str], column: int) -> str:
        return str(sum(_printed(g)[column] >= HUMAN_LEVEL for g in games))

    def above_dqn(games: Sequence[str]) -> str:
        return str(sum(_printed(g)[4] > _printed(g)[2] for g in games))

    settings = list(ours)
    in_the_text = f"{text['above_dqn']} (its table: {above_dqn(ATARI_49)})"
    rows = [
        [
            *(f"{HUMAN_LEVEL} % of human or more", n, str(sum(level.values()))),
            *(
                human_level(settings, 7),
                human_level(settings, 6),
                str(text["human_level"]),
                str(text["dqn_human_level"]),
            ),
        ],
        ["above DQN", n, str(sum(above.values())), above_dqn(settings), "", in_the_text, ""],
    ]
    columns = ["number of games", "of", "Ours", "Daley & Amato", "DQN", "Daley & Amato, of 49", "DQN, of 49"]
    note = "Ours, and the paper's table 4 in the same games. Of 49: the counts of the paper's section 5.2."
    return Table(f"daley_table_4_counts{suffix}", "Number of games", columns, rows, note)


def _printed(game: str) -> list[float]:
    return list(published_by("daley")["table_4"]["games"][game])


def _with_std(score: float, deviation: float) -> str:
    return number(score, 1) + ("" if math.isnan(deviation) else f" ({deviation:.1f})")


def daley_cell(settings: Settings) -> tuple[str, str] | None:
    """(threads, variant) of a run's cell in tables 1 to 3, or None for other runs."""
    printed = published_by("daley")["table_1"]
    per_worker = bool(settings.get("sampler.inference_per_worker"))
    threads = str(settings.get("sampler.envs"))
    theirs = is_daleys_dqn(settings) and threads in printed["threads"]
    if not theirs or not (per_worker or settings.get("sampler.groups") == 1):
        return None
    alone = None in printed["threads"][threads]  # With one thread, there are no synchronized variants.
    column = (settings.get("schedule") == "concurrent") + 2 * (not per_worker and not alone)
    return threads, printed["columns"][column]


def daley_differences(settings: Settings) -> list[str]:
    """Settings in which a run differs from the paper's runs in the same cell of tables 1 to 3."""
    if (cell := daley_cell(settings)) is None:
        return []
    workers = {"sampler.workers": int(cell[0])} if settings.get("sampler.workers") else {}
    return differences(settings, {"learners": 1, **workers, **wanted("daley", "hours")})


def daley_score_differences(settings: Settings) -> list[str]:
    """Settings in which a run differs from the paper's runs in table 4, which use the fastest variant."""
    return differences(settings, {"learners": 1, **wanted("daley", "hours", "scores")})


def daley_name(settings: Settings) -> str:
    """The name, such as DQN-8threads-both, of a run with the settings of tables 1 to 3, or "" for other runs."""
    cell = daley_cell(settings)
    return f"DQN-{cell[0]}threads-{cell[1]}" if cell and not daley_differences(settings) else ""


def is_daleys_dqn(settings: Settings) -> bool:
    """DQN on an Atari game, with one rank and a batch size of 32 (Daley & Amato, table 5)."""
    one_rank = ranks(settings) == 1 and not asynchronous(settings) and not settings.get("secondary.batch")
    dqn = settings.get("algorithm") == "dqn" and settings.get("algo.batch_size") == 32
    return dqn and one_rank and plays_atari(settings)


def daley_hours(settings: Settings) -> float | None:
    """The hours for 50 M env steps in table 1 of Daley & Amato 2021, or None if the table has no such cell."""
    if (cell := daley_cell(settings)) is None:
        return None
    printed = published_by("daley")["table_1"]
    return float(printed["threads"][cell[0]][printed["columns"].index(cell[1])][0])


def published_tables() -> list[Table]:
    """Tables 1 to 3 with only the numbers in the paper."""
    paper = published_by("daley")
    first = paper["table_1"]
    names = ["threads", *first["columns"]]
    rows = [
        [threads, *("-" if c is None else f"{c[0]:.2f} +- {c[1]:.2f}" for c in cells)]
        for threads, cells in first["threads"].items()
    ]
    result = [Table("daley_table_1", TITLE.format(1), names, rows, f"{first['unit']}; {first['machine']}")]
    for i, digits in ((2, 1), (3, 2)):
        t = paper[f"table_{i}"]
        rows = [
            [threads, *("-" if c is None else number(c, digits) for c in cells)]
            for threads, cells in t["threads"].items()
        ]
        result.append(Table(f"daley_table_{i}", TITLE.format(i), names, rows, t["unit"]))
    return result


def sections(runs: Sequence[TrainedRun], settings: BySetting) -> list[Section]:
    of_suite = [Section.of(table, counts) for table, counts in suite_tables(settings)]
    return [*map(Section.of, speed_tables(runs)), *of_suite]


PAPER = Paper(
    "Daley & Amato",
    2021,
    sections,
    published_tables,
    daley_hours,
    "one GTX 1080 and 8 threads",
    daley_differences,
    daley_name,
)
