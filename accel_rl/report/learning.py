"""Figures of learning curves: a panel for each game, or a row for each family and a column for each game."""

from typing import Any

from accel_rl.report import families
from accel_rl.report.canvas import colours
from accel_rl.report.claims import stooke_figures
from accel_rl.report.curves import Band, Over, Settings, score_bands
from accel_rl.report.panels import Panel, in_rows, wrapped

FIGURES_IN_ROWS = {"3", "4"}


def grouped(settings: Settings) -> dict[str, Settings]:
    """Group settings by family: {family: settings}, a row of the figure each, or {"": settings} for a single group.

    There are rows for runs of Figures 3 and 4. Runs that are of no figure get rows if there are several families with
    several settings each.
    """
    rows: dict[str, dict[str, Any]] = {}
    runs = [r for games in settings.values() for same in games.values() for r in same]
    for setting, games in settings.items():
        first = next(r for same in games.values() for r in same)
        rows.setdefault(families.family(first.settings), {})[setting] = games
    figures = {n for r in runs for n in stooke_figures(r.experiment)}
    several = figures <= FIGURES_IN_ROWS if figures else all(len(found) > 1 for found in rows.values())
    if len(rows) < 2 or "" in rows or not several:
        return {"": settings}
    return {f: rows[f] for f in families.FAMILIES if f in rows}


def bands_of(rows: dict[str, Settings], curve: str, over: Over) -> dict[str, dict[str, dict[str, Band]]]:
    """Compute {row: {game: {setting: band}}}."""
    return {row: score_bands(settings, curve, over) for row, settings in rows.items()}


def left_out(bands: dict[str, dict[str, dict[str, Band]]], settings: Settings, over: Over) -> list[str]:
    """Return a line for each setting and game that has scores but no curve."""
    there = {(setting, game) for games in bands.values() for game, lines in games.items() for setting in lines}
    why = "no wall clock, or no minutes in common" if over == "minutes" else "no env steps in common"
    return [
        f"no curve of {setting} in {game}: its runs have {why}"
        for setting, games in settings.items()
        for game, runs in games.items()
        if (setting, game) not in there and any(r.online[0].size or r.evaluated for r in runs)
    ]


def drawn(bands: dict[str, dict[str, dict[str, Band]]], settings: Settings, over: Over) -> list[bytes]:
    panels = {
        row: {
            game: Panel(f"{game}, {next(iter(lines.values())).what} score", lines, over, game)
            for game, lines in games.items()
        }
        for row, games in bands.items()
        if games
    }
    if len(panels) > 1:
        return in_rows(panels, sorted({game for found in panels.values() for game in found}))
    colour = colours(list(settings))
    return [png for found in panels.values() for png in wrapped(list(found.values()), colour)]
