"""Hooks of mkdocs add pages outside docs/ to the site, and convert formulas to MathML.

The pages are readable on GitHub: links are relative to the file, and formulas are between dollar signs. For the site,
the hooks rewrite the links, and `latex2mathml` converts each formula to MathML, which needs no script in the browser.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples", "experiments", "benchmarks/results")
"""Folders outside docs/ whose pages and linked files are part of the site, under their path in the repository."""
SUFFIXES = (".md", ".ipynb", ".png", ".svg", ".csv", ".json", ".py", ".yaml")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]+`", re.M | re.S)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
BLOCK = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.M | re.S)
INLINE = re.compile(r"(?<![\w$\\])\$([^$\n]+?)\$(?![\w$])")


def on_config(config: Any) -> Any:
    """Remove the links for editing from all pages if no repository's address is configured."""
    if not config.repo_url:
        config.edit_uri = None
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/, and the files that these pages show, to the site."""
    paths = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Dockerfile")]
    for folder in FOLDERS:
        paths += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    for path in paths:
        uri = path.relative_to(ROOT).as_posix()
        if "__pycache__" not in path.parts:
            file = File(uri, str(ROOT), config.site_dir, config.use_directory_urls)
            file.edit_uri = f"../{uri}"
            files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links and formulas of a page, except in code."""
    here = Path(page.file.abs_src_path).parent
    done, at = [], 0
    for code in CODE.finditer(markdown):
        done += [_prose(markdown[at : code.start()], here, page.file.src_uri), code.group()]
        at = code.end()
    return "".join([*done, _prose(markdown[at:], here, page.file.src_uri)])


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Replace the placeholders in a page by the MathML of the formulas, which Markdown must not process."""
    html = re.sub(r"<p>(FORMULA\d+X)</p>", r"\1", html)
    for name, formula in _formulas.items():
        html = html.replace(name, formula)
    _formulas.clear()
    return html


_formulas: dict[str, str] = {}
"""Maps a placeholder in the current page to its formula."""


def _formula(tex: str, block: bool) -> str:
    name = f"FORMULA{len(_formulas)}X"
    math = convert(tex, display="block" if block else "inline")
    _formulas[name] = f'<div class="formula">{math}</div>' if block else math
    return name


def _prose(text: str, here: Path, uri: str) -> str:
    text = LINK.sub(lambda m: m[1] + _link(m[2], here, uri) + m[3], text)
    text = BLOCK.sub(lambda m: _formula(m[1], block=True), text)
    return INLINE.sub(lambda m: _formula(m[1], block=False), text)


def _link(link: str, here: Path, uri: str) -> str:
    """Convert a link of a file in the folder `here` to a link of the site's page `uri`."""
    if re.match(r"[a-z]+:|#", link):
        return link
    file, hash_, anchor = link.partition("#")
    target = Path(os.path.normpath(here / file))
    if target.is_dir():  # The site cannot show a folder, so the link leads to a file of this folder.
        names = ("README.md", "curve.png", "metrics.csv")
        target /= next((name for name in names if (target / name).exists()), names[0])
    docs = ROOT / "docs"
    there = target.relative_to(docs if target.is_relative_to(docs) else ROOT).as_posix()
    return posixpath.relpath(there, posixpath.dirname(uri) or ".") + hash_ + anchor
