"""The error message if a compiled extension is missing has the cause and the remedy."""

import importlib.machinery
import sys
from pathlib import Path

import pytest

from accel_rl.machine import extensions

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
ERROR = ImportError("undefined symbol: x")


def package(folder: Path, compiled: bool = False, source: bool = False) -> Path:
    result = folder / "accel_rl"
    (result / "emulator").mkdir(parents=True)
    if compiled:
        (result / "emulator" / f"_core{SUFFIX}").touch()
    if source:
        (folder / "setup.py").touch()
    return result


def remedy(monkeypatch: pytest.MonkeyPatch, imported: Path, path: list[Path]) -> str:
    monkeypatch.setattr(extensions, "PACKAGE", imported)
    monkeypatch.setattr(sys, "path", [str(p) for p in path])
    return extensions.remedy("emulator/_core", ERROR)


def test_a_source_tree_beside_an_installed_one_names_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone, site = tmp_path / "clone", tmp_path / "site"
    source, installed = package(clone, source=True), package(site, compiled=True)
    said = remedy(monkeypatch, source, [clone, site])
    assert str(source) in said and str(installed) in said and f"python -m pip install -e {clone}" in said
    assert "compiler" not in said


def test_a_source_tree_alone_is_to_be_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = package(tmp_path, source=True)
    said = remedy(monkeypatch, source, [tmp_path])
    assert said.startswith("install a C++17 compiler") and f"pip install -e {tmp_path}" in said


def test_an_installed_one_without_extensions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = remedy(monkeypatch, package(tmp_path), [tmp_path])
    assert said == "install a C++17 compiler (g++ or clang++) and reinstall accel_rl with pip"


def test_an_extension_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = remedy(monkeypatch, package(tmp_path, compiled=True, source=True), [tmp_path])
    assert "undefined symbol: x" in said and "_core" in said
