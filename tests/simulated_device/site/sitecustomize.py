"""Python runs this file at its start if its folder is on PYTHONPATH. The file installs the simulated device when torch
is imported.

A process that never imports torch only reads one environment variable.
"""

import os
import sys

if os.environ.get("ACCEL_RL_TEST_SIMULATED_DEVICE") == "1":

    class _AfterTorch:
        """A module finder that lets other finders find torch, and installs the device after torch's execution."""

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

                # Groups of a sampler share tensors (see `in_parts`), so unordered accesses are not checked.
                simulated_device.install(races=False)
                simulated_device.stay()
                if os.environ.get("ACCEL_RL_TEST_NCCL") == "1":
                    simulated_device.stay_on_device()

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, _AfterTorch())
