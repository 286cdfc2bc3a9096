"""Installs the simulated device when torch is imported. Python runs this file at its start if the folder is on
PYTHONPATH."""

import os
import sys

if os.environ.get("ACCEL_RL_TEST_SIMULATED_DEVICE") == "1":

    class _AfterTorch:
        """A module finder, which installs the simulated device after the first import of torch."""

        def find_spec(self, name, path=None, target=None):
            if name != "torch":
                return None
            sys.meta_path.remove(self)
            import importlib.util

            spec = importlib.util.find_spec("torch")
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                from tests import simulated_device

                # Groups of environments share tensors (see `in_parts`), so that unordered accesses are no errors.
                simulated_device.install(races=False)
                simulated_device.stay()
                if os.environ.get("ACCEL_RL_TEST_NCCL") == "1":
                    simulated_device.stay_on_device()

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, _AfterTorch())
