"""Python runs this file at its start if its folder is on PYTHONPATH. The file plants a fault of
tests/chaos/planted_faults.py into a module as soon as the process has imported the module."""

import os
import sys

if os.environ.get("CHAOS_PLANTED"):
    import importlib.util
    from types import SimpleNamespace

    def find_spec(name, path=None, target=None):
        """Find the module by Python's other finders, and plant the fault after the module was executed."""
        if name != os.environ["CHAOS_PLANTED_MODULE"]:
            return None
        sys.meta_path.remove(finder)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            from tests.chaos.planted_faults import PLANTED

            PLANTED[os.environ["CHAOS_PLANTED"]].patch(module)

        spec.loader.exec_module = exec_module
        return spec

    finder = SimpleNamespace(find_spec=find_spec)
    sys.meta_path.insert(0, finder)
