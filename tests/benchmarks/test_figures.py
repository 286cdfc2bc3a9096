"""Each number on a page of results is in the JSON files beside the page, or is marked as "JSON not kept"."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PAGES = [page for page in sorted(RESULTS.glob("*.md")) if [*RESULTS.glob(f"{page.stem}*.json")]]
FIGURE = re.compile(r"(?<![\w.-])\d{1,3}(?:,\d{3})+|(?<![\w.,-])\d+\.\d+(?= M)")
MARK = "JSON not kept"
"""Numbers in a paragraph with this mark, or in the next paragraph, need not be in a JSON file."""
SETTINGS = {"2,048", "5,100"}
"""Numbers that are settings, such as batch sizes, which some programs do not write to JSON files."""


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, str):
        yield from map(float, re.findall(r"\d+(?:\.\d+)?", value))
    elif isinstance(value, dict):
        yield from (n for pair in value.items() for part in pair for n in numbers(part))
    elif isinstance(value, list):
        yield from (n for part in value for n in numbers(part))


def without_data(page: str, data: list[object]) -> list[str]:
    """Return the numbers of a page that are neither in a marked paragraph nor, rounded, in the data.

    The page may show a number n of the data also in millions, or a rate n per second as 1e6 / n microseconds.
    """
    known = {n for part in data for n in numbers(part)}
    missing, before = [], ""
    for block in page.split("\n\n"):
        if MARK not in before + block:
            for figure in map(str, FIGURE.findall(block)):
                value, half = float(figure.replace(",", "")), 0.51 * 10 ** -len(figure.partition(".")[2])
                forms = (value, value * 1e6 if "." in figure else value / 1e6, 1e6 / value if value else value)
                widths = (half, half * (1e6 if "." in figure else 1e-6), half * 1e6 / value**2 if value else half)
                is_known = any(abs(n - form) <= width for n in known for form, width in zip(forms, widths, strict=True))
                if not is_known and figure not in SETTINGS:
                    missing.append(figure)
        before = block if not block.startswith("#") else ""
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_are_in_the_data_beside_the_page(page: Path) -> None:
    text = page.read_text()
    files = {*RESULTS.glob(f"{page.stem}*.json"), *(RESULTS / name for name in re.findall(r"\]\((\w+\.json)\)", text))}
    assert not (missing := without_data(text, [json.loads(file.read_text()) for file in files])), missing


def test_a_figure_without_data_is_found() -> None:
    data: list[object] = [{"rate": 118_432.4, "games": [{"frames": 1_563_000, "us": "24,0"}]}]
    assert not without_data("118,432 steps/s, 1.56 M frames/s", data)
    assert without_data("118,433 steps/s, 1.65 M frames/s and 24,182 us", data) == ["118,433", "1.65", "24,182"]
    assert not without_data("JSON not kept.\n\n118,433", data) and not without_data("118,433 (JSON not kept)", data)
    assert without_data("JSON not kept.\n\n118,432\n\n118,433", data) == ["118,433"]
