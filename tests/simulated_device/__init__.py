"""A simulated GPU for torch: device type "sim" with two devices, `sim:0` and `sim:1`, on a machine that has none.

Operations run on the host. The simulation finds what breaks on a GPU: tensors of two devices mixed, waits of the host,
values read before an asynchronous copy is done, unordered accesses of two streams, and what a graph cannot capture.
It says nothing about speed.
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
