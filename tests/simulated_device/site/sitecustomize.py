"""Python runs this file at its start if its folder is on PYTHONPATH. It installs the simulated device after torch.

A process that never imports torch pays for one environment variable.
"""

import os
import sys

if os.environ.get("ACCEL_RL_TEST_SIMULATED_DEVICE") == "1":

    class _AfterTorch:
        """A finder of modules: lets the others find torch, and installs the device once torch is executed."""

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

                simulated_device.install(races=False)  # a sampler's groups share tensors: see `in_parts`
                simulated_device.stay()
                if os.environ.get("ACCEL_RL_TEST_NCCL") == "1":
                    simulated_device.stay_on_device()

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, _AfterTorch())
