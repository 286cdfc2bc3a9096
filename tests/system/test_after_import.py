"""A module that is imported as soon as another one is."""

import importlib
import importlib.util
import sys

import pytest

from accel_rl.system.after_import import after_import


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules that write down when they are imported."""
    order: list[str] = []
    monkeypatch.setitem(sys.modules, "written_order", order)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("watched_one", "other_one"):
        text = f"import sys; sys.modules['written_order'].append('{name}')\n"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield order
    for name in ("watched_one", "other_one"):
        sys.modules.pop(name, None)


def test_it_is_imported_after_the_other(modules):
    finders = list(sys.meta_path)
    after_import("watched_one", "other_one")
    assert modules == []
    assert importlib.util.find_spec("watched_one") is not None and modules == []  # only looked for
    importlib.import_module("watched_one")
    assert modules == ["watched_one", "other_one"] and sys.meta_path == finders
    importlib.reload(sys.modules["watched_one"])
    assert modules == ["watched_one", "other_one", "watched_one"]


def test_it_is_imported_now_if_the_other_has_been(modules):
    importlib.import_module("watched_one")
    after_import("watched_one", "other_one")
    assert modules == ["watched_one", "other_one"]


def test_a_module_that_is_missing_stays_so(modules):
    after_import("no_such_module_here", "other_one")
    assert importlib.util.find_spec("no_such_module_here") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_here")
    assert modules == []
