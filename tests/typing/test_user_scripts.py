"""The types of settings are current. `.ci/beside tools` checks the scripts of this folder with pyright and mypy."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_types_of_settings_are_current():
    pytest.importorskip("ruff")
    file = ROOT / "docs/tools/settings_types.py"
    spec = importlib.util.spec_from_file_location("settings_types", file)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.OUT.read_text() == tool.page(), "run python docs/tools/settings_types.py"
