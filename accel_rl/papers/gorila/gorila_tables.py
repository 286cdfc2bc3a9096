"""Tables 1 to 4 of Nair et al. 2015 (Gorila) for given runs, in the paper's layout, next to the paper's numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.envs.atari_games import scores as published_scores
from accel_rl.papers.gorila.gorila_scores import (
    HUMAN_LEVEL,
    KINDS,
    NAMES,
    OURS,
    TITLE,
    GameScore,
    Starts,
    gorila_differences,
    own_scores,
)
from accel_rl.papers.published import percent_of, published_by
from accel_rl.results.table import Table, number, sentence
from accel_rl.results.trained_run import BySetting, TrainedRun


@dataclass(frozen=True)
class Setting:
    """Runs with the same settings: `games` maps each game to its runs, and `by_starts` maps each kind of starts to the
    scores. `suffix` is appended to the names of the tables, and is "" for the first setting."""

    name: str
    suffix: str
    games: Mapping[str, Sequence[TrainedRun]]
    by_starts: Mapping[Starts, Mapping[str, GameScore]]

    def tables(self) -> list[Table]:
        """Each of the paper's tables 1 to 4 for which this setting has scores, and a table with the counts of section
        6."""
        result = [
            build(i, self.name, self.by_starts[starts], self.suffix)
            for i, starts, build in LAYOUT
            if starts in self.by_starts
        ]
        return [*result, _counts(self.name, self.by_starts, self.suffix)]


def settings_with_scores(settings: BySetting) -> list[Setting]:
    result: list[Setting] = []
    for name, games in settings.items():
        if by_starts := {starts: scores for starts in KINDS if (scores := own_scores(games, starts))}:
            result.append(Setting(name, f"_{len(result) + 1}" if result else "", games, by_starts))
    return result


def _normalized(i: int, setting: str, scores: Mapping[str, GameScore], suffix: str) -> Table:
    """Table 1 or 2 of Nair et al. 2015, which report normalized scores."""
    printed = published_by("gorila")[f"table_{i}"]
    rows = []
    for game in ATARI_49:
        s = scores.get(game)
        ours = [number(s.percent, 2), number(s.percent_of_dqn, 2)] if s else ["", ""]
        rows.append([game, *(number(x, 2) or "-" for x in printed["games"][game]), *ours])
    note = (
        "%: 100 (score - random) / (human - random). % of DQN: 100 (score - random) / (DQN - random), with the paper's "
        f"random and DQN. {TITLE}: as printed. {_note(setting, scores)}"
    )
    columns = ["game", *printed["columns"], "Ours %", "Ours, % of DQN"]
    return Table(f"gorila_table_{i}{suffix}", _title(i, printed["starts"], "normalized", setting), columns, rows, note)


def _raw(i: int, setting: str, scores: Mapping[str, GameScore], suffix: str) -> Table:
    """Table 3 or 4 of Nair et al. 2015, which report raw scores."""
    kind = next(iter(scores.values())).kind
    rows = []
    for game in ATARI_49:
        row, s = published_scores(kind)[game], scores.get(game)
        ours = [number(s.random), number(s.mean), str(len(s.results))] if s else ["", "", ""]
        rows.append([game, *(number(row[c]) for c in ("random", "human", "dqn", "gorila")), *ours])
    columns = ["game", "Random", "Human", "DQN", "Gorila", "Random (ours)", "Ours", "runs"]
    note = f"Random, Human, DQN and Gorila: {TITLE}, as printed. {_note(setting, scores)}"
    return Table(f"gorila_table_{i}{suffix}", _title(i, kind, "raw", setting), columns, rows, note)


LAYOUT: tuple[tuple[int, Starts, Callable[..., Table]], ...] = (
    (1, "noop", _normalized),
    (2, "saved", _normalized),
    (3, "saved", _raw),
    (4, "noop", _raw),
)
"""`LAYOUT` lists the number, the kind of starts and the build function of each table."""


def _title(i: int, kind: str, what: str, setting: str) -> str:
    return f"{TITLE}, table {i}: {NAMES[kind]}, {what} ({setting})"


def _note(setting: str, scores: Mapping[str, GameScore]) -> str:
    episodes = sorted({r.episodes for s in scores.values() for r in s.results})
    counts = f"{episodes[0]}" if len(episodes) == 1 else f"{episodes[0]} to {episodes[-1]}"
    said = [f"Ours: {setting}, mean over runs (5 in the paper) of {counts} episodes each."]
    chosen = sum(len(s.results) - s.finals for s in scores.values())
    if chosen:
        said.append(f"{chosen} runs have no final evaluation: their best evaluation in training stands in, too high.")
    if without := [game for game, s in scores.items() if math.isnan(s.random)]:
        said.append(f"Own random play was not measured, the paper's is used: {', '.join(without)}.")
    if any(s.kind == "human" for s in scores.values()):
        said.append(OURS)
    kind = next(iter(scores.values())).kind
    runs = [run for s in scores.values() for run in s.runs]
    said.append(sentence(runs, lambda settings: gorila_differences(settings, kind), "Differs from the paper").strip())
    if mixed := [game for game, s in scores.items() if len({r.points for r in s.results}) > 1]:
        said.append(f"Runs with different start points: {', '.join(mixed)}.")
    return " ".join(filter(None, said))


def _counts(setting: str, by_starts: Mapping[Starts, Mapping[str, GameScore]], suffix: str) -> Table:
    """Counts as in section 6 of Nair et al. 2015: the games with scores above DQN, and at human level."""
    rows = []
    for starts, scores in by_starts.items():
        kind = KINDS[starts]
        text = published_by("gorila")["counts"][kind]
        rows.append(
            [
                *(
                    f"above DQN, {NAMES[kind]}",
                    str(len(scores)),
                    str(sum(s.mean > s.printed["dqn"] for s in scores.values())),
                ),
                *(str(sum(s.printed["gorila"] > s.printed["dqn"] for s in scores.values())), _text(text["above_dqn"])),
            ]
        )
        rows.append(
            [
                *(f"{HUMAN_LEVEL} % of human or more, {NAMES[kind]}", str(len(scores))),
                str(sum(is_human_level(s, s.mean, s.percent) for s in scores.values())),
                str(sum(is_human_level(s, s.printed["gorila"], _percent_of_gorila(s)) for s in scores.values())),
                _text(text["human_level"]),
            ]
        )
    columns = ["number of games", "of", "Ours", "Gorila", "Gorila, of 49"]
    note = f"Ours ({setting}), and Gorila in the same games by the paper's raw scores. Of 49: section 6 of the paper."
    return Table(f"gorila_counts{suffix}", f"{TITLE}, section 6: number of games ({setting})", columns, rows, note)


def is_human_level(s: GameScore, score: float, percent: float) -> bool:
    """Whether the human-normalized value `percent` of a score is at least 75. If the human score is not above the
    random score, the score must be at least the human score instead."""
    row = s.printed
    return percent >= HUMAN_LEVEL if row["human"] > row["random"] else score >= row["human"]


def _percent_of_gorila(s: GameScore) -> float:
    return percent_of(s.printed["gorila"], s.printed["random"], s.printed["human"])


def _text(count: int | None) -> str:
    return "-" if count is None else str(count)
