"""A self-contained HTML page that needs no other files. A click on a column's header sorts the table by this column."""

import base64
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from accel_rl.results.table import Table
from accel_rl.results.trained_run import Run
from accel_rl.text.counts import counted
from accel_rl.version import __version__

NUMBER = r"-?(\d+(\.\d+)?|inf)( \+- [\d.]+| \([\d.]+\))?"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1280px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ddd; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 2px 10px; border-bottom: 1px solid #eee; text-align: right; white-space: nowrap; }
th { background: #f5f5f5; position: sticky; top: 0; } th.text, td.text { text-align: left; }
p.note, figcaption, ul.notes { color: #666; font-size: 13px; } figure { margin: 1em 0; } img { max-width: 100%; }
th { cursor: pointer; }
th[aria-sort=ascending]::after { content: " ▲"; } th[aria-sort=descending]::after { content: " ▼"; }
@media (max-width: 600px) { figure { overflow-x: auto; } figure img { max-width: none; width: 640px; } }
"""
SORT = """
document.querySelectorAll("th").forEach(head => head.onclick = () => {
  const table = head.closest("table"), column = head.cellIndex, isText = head.className == "text";
  const order = head.getAttribute("aria-sort") == "ascending" ? "descending" : "ascending";
  const sign = order == "ascending" ? 1 : -1, value = row => row.cells[column].textContent;
  const number = row => parseFloat(value(row).replace("inf", "Infinity"));
  const compare = (a, b) => isText ? value(a).localeCompare(value(b), "en", {numeric: true}) : number(a) - number(b);
  const isEmpty = row => isText ? value(row) == "" : isNaN(number(row));
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(
    (a, b) => isEmpty(a) - isEmpty(b) || (isEmpty(a) ? 0 : sign * compare(a, b))));
});
"""
"""Empty cells and dashes come last in ascending and in descending order."""


@dataclass(frozen=True)
class Picture:
    png: bytes
    caption: str


@dataclass(frozen=True)
class Section:
    """Notes, followed by pictures, followed by tables."""

    title: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def page(runs: Sequence[Run], sections: Sequence[Section], notes: Sequence[str]) -> str:
    games = {r.game for r in runs}
    numbers = (
        (len({r.path or r.name for r in runs}), "run"),
        (len({r.setting for r in runs}), "setting"),
        (len(games), "game"),
    )
    title = ", ".join(counted(n, thing) for n, thing in numbers)
    parts = [f"<h1>{title}</h1>", f"<p class=note>accel_rl {__version__}, {time.strftime('%Y-%m-%d %H:%M')}</p>"]
    parts += _notes(notes)
    for section in sections:
        parts += [f"<h2>{escape(section.title)}</h2>", *_notes(section.notes), *map(_figure, section.pictures)]
        parts += map(_table, section.tables)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{SORT}</script>\n</body></html>\n"
    )


def _notes(notes: Sequence[str]) -> list[str]:
    return ["<ul class=notes>" + "".join(f"<li>{escape(n)}</li>" for n in notes) + "</ul>"] if notes else []


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    caption = escape(picture.caption, quote=True)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    if not table.rows:
        return "<p class=note>Nothing to show.</p>"
    text = [any(not _is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    kind = ["text" if t else "number" for t in text]
    head = "".join(f'<th class="{k}">{escape(c)}</th>' for c, k in zip(table.columns, kind, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f'<td class="{k}">{escape(c)}</td>' for c, k in zip(row, kind, strict=True)) + "</tr>"
        for row in table.rows
    )
    complete = f'<table id="{table.name}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return f"<div class=scroll>{complete}</div><p class=note>{escape(table.note)} ({table.name}.csv)</p>"


def _is_number(cell: str) -> bool:
    """Whether a cell is empty, a dash or a number, such as 3069 (1093) or 25.08 +- 0.52."""
    return cell in ("", "-") or re.fullmatch(NUMBER, cell) is not None
