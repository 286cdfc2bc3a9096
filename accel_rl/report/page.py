"""A self-contained HTML page that needs no other files. A click on a column's header sorts the table by this column."""

import base64
import re
import time
from collections.abc import Sequence
from html import escape

from accel_rl.results.section import Picture, Section
from accel_rl.results.table import Table
from accel_rl.results.trained_run import TrainedRun
from accel_rl.text.counts import counted
from accel_rl.version import __version__

NUMBER = r"-?(\d+(\.\d+)?|inf)( \+- [\d.]+| \([\d.]+\))?"
STYLE = """
:root { color-scheme: light dark; --ink: #222; --faint: #666; --line: #e4e4e4; --head: #f5f5f5; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --faint: #9a9fa6; --line: #30343b; --head: #22262d; --paper: #17191d; }
  img { filter: invert(0.9) hue-rotate(180deg); }
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1400px; margin: 2em auto; padding: 0 1em; }
body { color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 2px 7px; border-bottom: 1px solid var(--line); text-align: right; }
th { background: var(--head); position: sticky; top: 0; vertical-align: bottom; cursor: pointer; }
th.text, td.text { text-align: left; } td.number { white-space: nowrap; }
p.note, figcaption, ul.notes { color: var(--faint); font-size: 13px; }
figure { margin: 1em 0; } img { max-width: 100%; }
th[aria-sort=ascending]::after { content: " ▲"; } th[aria-sort=descending]::after { content: " ▼"; }
@media (max-width: 600px) {
  thead { display: none; } tr { display: flex; flex-wrap: wrap; gap: 0 1em; padding: 4px 0; }
  tr { border-bottom: 1px solid var(--line); } td { border: 0; padding: 0; } td:empty { display: none; }
  td::before { content: attr(data-column) " "; color: var(--faint); font-size: 11px; }
}
"""
"""On a phone, columns do not fit, so each cell is preceded by its column's name. On a dark page, pictures are inverted
without changing their hues."""
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


NARROW = 4.4
"""The width of a picture for a phone, in inches."""


def page(runs: Sequence[TrainedRun], sections: Sequence[Section], notes: Sequence[str]) -> str:
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
    caption = escape(picture.caption, quote=True)
    narrow = f'<source media="(max-width: 600px)" srcset="{_data(picture.narrow)}">' if picture.narrow else ""
    image = f'<img alt="{caption}" src="{_data(picture.png)}">'
    return f"<figure><picture>{narrow}{image}</picture><figcaption>{caption}</figcaption></figure>"


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _table(table: Table) -> str:
    if not table.rows:
        return "<p class=note>Nothing to show.</p>"
    table = table.without_empty(table.columns)
    text = [any(not _is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    heads = [("text" if t else "number", escape(c, quote=True)) for c, t in zip(table.columns, text, strict=True)]
    head = "".join(f'<th class="{kind}">{name}</th>' for kind, name in heads)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-column="{name}">{escape(c)}</td>'
            for c, (kind, name) in zip(row, heads, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    complete = f'<table id="{table.name}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return f"<div class=scroll>{complete}</div><p class=note>{escape(table.note)} ({table.name}.csv)</p>"


def _is_number(cell: str) -> bool:
    """Whether a cell is empty, a dash or a number, such as 3069 (1093) or 25.08 +- 0.52."""
    return cell in ("", "-") or re.fullmatch(NUMBER, cell) is not None
