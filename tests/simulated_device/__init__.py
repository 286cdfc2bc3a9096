"""A simulated GPU for torch, on a machine without a GPU: device type "sim" with the devices `sim:0` and `sim:1`.

Operations run on the host. The simulation finds mistakes that break runs on a GPU: operations on tensors of two
devices, waits of the host, values that are read before an asynchronous copy is done, unordered accesses of two streams,
and operations that a graph cannot capture. The simulation does not measure speed.
"""

from tests.simulated_device.alignment import operands
from tests.simulated_device.collectives import collectives_on_device, stay_on_device
from tests.simulated_device.install import child_processes, install, present, reset, stay
from tests.simulated_device.launches import launching
from tests.simulated_device.streams import touched
from tests.simulated_device.tensor import in_parts
from tests.simulated_device.waits import counting, waits

__all__ = [
    "child_processes",
    "collectives_on_device",
    "counting",
    "in_parts",
    "install",
    "launching",
    "operands",
    "present",
    "reset",
    "stay",
    "stay_on_device",
    "touched",
    "waits",
]
