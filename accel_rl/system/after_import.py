"""Imports a module as soon as another module is imported."""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, then: str) -> None:
    """Import module `then` when module `name` is imported, or immediately if `name` has been imported."""
    if name in sys.modules:
        importlib.import_module(then)
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


class _AfterImport(MetaPathFinder):
    """`_AfterImport` is an import finder that delegates to the other finders. The loader of the module `name` then also
    imports the module `then`."""

    def __init__(self, name: str, then: str) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:  # The finder is already removed if the module is reloaded or loaded twice.
                sys.meta_path.remove(self)
                importlib.import_module(self._then)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
