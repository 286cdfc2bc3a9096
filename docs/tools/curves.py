"""Draw learning curves and tables of the recorded runs, by the code of `accel-rl plot` and `accel-rl report`. The
suite's runs are all finished runs in experiments/results/suite.
"""

import re
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib

from accel_rl.metrics.plot import Curve, draw, read_columns
from accel_rl.report.costs import costs_table
from accel_rl.report.equal_steps import comparisons, equal_steps_table, pooled_table
from accel_rl.report.runs import read_runs
from accel_rl.results.table import Table
from accel_rl.results.trained_run import BySetting, TrainedRun, by_setting
from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import default_config

RESULTS = Path(__file__).parents[2] / "experiments/results"
EPISODES = 10  # Curves omit evaluations of fewer than `EPISODES` episodes.
RECORDED = {
    "pong_ppo": ("env_steps", {"Xeon": "pong_ppo_winograd", "EPYC": "pong_ppo_wide"}),
    "pong_pqn": ("env_steps", {"PQN": "pong_pqn/seed*"}),
    "pong_a2c": ("env_steps", {"A2C": "pong_a2c/seed*"}),
    "pong_a3c": ("env_steps", {"A3C": "pong_a3c"}),
    "pong_rainbow": ("env_steps", {"epsilon-Rainbow": "pong_rainbow"}),
    "pong_dqn": ("updates", {"one learner": "pong_dqn_single", "Gorila": "pong_gorila"}),
}
"""Maps the name of a picture to the column of its x axis, and to the run folders of each curve by the curve's label."""
GREY = "#7d8590"  # Grey is readable on white and on black pages.
STYLE = {
    "font.size": 16, "svg.fonttype": "none", "svg.hashsalt": "accel_rl", "savefig.transparent": True,
    "legend.framealpha": 0.0, "legend.edgecolor": GREY, "grid.color": GREY,
    **{name: GREY for name in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")},
}  # fmt: skip


def suite(folder: Path = RESULTS / "suite") -> BySetting:
    """Return the finished runs of the suite by setting and game. The name of a setting consists of the algorithm, the
    preset (if any), and the network and the kind of priorities where they differ from the preset's."""
    runs = [run for run in read_runs([folder]) if not run.unfinished]
    return by_setting([replace(run, setting=_name(run)) for run in runs])


def _name(run: TrainedRun) -> str:
    if not (preset := str(run.settings.get("preset") or "")):
        return run.algorithm.upper()
    usual = with_preset(default_config(run.algorithm), preset).algo
    differing = [
        str(value)
        for name in ("network", "priority")
        if (value := run.settings.get(f"algo.{name}")) != getattr(usual, name, value)
    ]
    return ", ".join([run.algorithm.upper(), preset, *differing])


def pictures(runs: BySetting) -> dict[str, str]:
    """Return every picture of curves by its name. Pictures of the suite show only training scores, and the other
    pictures also show evaluations."""
    found = {}
    for name, (x, folders) in RECORDED.items():
        curves = []
        for label, folder in folders.items():
            found_runs = sorted(RESULTS.glob(folder))
            training, evaluation = Curve(f"{label}, training"), Curve(f"{label}, evaluation")
            for run in found_runs:
                columns = read_columns(run, x, ("score", "eval_score", "eval_episodes"))
                (steps, scores), enough = columns["eval_score"], columns["eval_episodes"][1] >= EPISODES
                for curve, (a, b) in ((training, columns["score"]), (evaluation, (steps[enough], scores[enough]))):
                    curve.x.append(a)
                    curve.y.append(b)
            curves += [training, evaluation]
        found[name] = _svg(curves, x)
    for game, names in _games(runs).items():
        curves = []
        for name in names:
            columns = [run.online for run in runs[name][game]]
            curves.append(Curve(name, [x for x, _ in columns], [y for _, y in columns], game))
        found[f"suite_{game}"] = _svg(curves, "env_steps")
    return found


def gallery(runs: BySetting, folder: str) -> str:
    """Return a page's pictures of the suite. `folder` is the path from the page to the pictures."""
    lines = []
    for game, names in _games(runs).items():
        *others, last = names
        words = f"{', '.join(others)} and {last}" if others else last
        lines.append(f"![{words} on {game}, score by env steps]({folder}/suite_{game}.svg)")
    return "\n".join(lines)


def tables(runs: BySetting) -> str:
    compared = list(comparisons(runs, "wang2016"))
    result = (equal_steps_table(compared), pooled_table(compared, 2_000), costs_table(runs, 0.0))
    return "\n\n".join(_markdown(table) for table in result if table.rows)


def fingerprint(svg: str) -> str:
    """Return a checksum of a picture's curves. The SVG text cannot be compared, because each version of matplotlib
    draws the same curves slightly differently."""
    found = re.search(r"<desc>(.*)</desc>", svg)
    return found[1] if found else svg


def _games(runs: BySetting) -> Mapping[str, Sequence[str]]:
    """Return, for each game, the settings with which a run of this game exists."""
    games = sorted({game for of_setting in runs.values() for game in of_setting})
    return {game: [name for name, of_setting in runs.items() if game in of_setting] for game in games}


def _svg(curves: list[Curve], x: str) -> str:
    text = ";".join(
        f"{c.game} {c.legend} {a.tolist()} {b.tolist()}" for c in curves for a, b in zip(c.x, c.y, strict=True)
    )
    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(STYLE):
        draw(curves, Path(folder) / "curves.svg", x, "score")
        svg = (Path(folder) / "curves.svg").read_text()
    return re.sub(r"<metadata>.*</metadata>", f"<desc>{zlib.crc32(text.encode()):08x}</desc>", svg, flags=re.S)


def _markdown(table: Table) -> str:
    """Return a table in Markdown, without its empty columns."""
    full = [i for i in range(len(table.columns)) if any(row[i] for row in table.rows)]
    rows = [[row[i] for i in full] for row in (table.columns, ["---"] * len(table.columns), *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
