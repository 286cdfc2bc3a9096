"""Layout of a sweep: the machine divided into slots of each size that its runs get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.sweeps import machine, slots
from accel_rl.sweeps.machine import Machine
from accel_rl.sweeps.needs import Needs, Size
from accel_rl.sweeps.placing import Placing, size_of
from accel_rl.sweeps.slots import Slot
from accel_rl.system.counts import counted


@dataclass(frozen=True)
class Layout:
    """sizes: {run: size}. slots: {size: all slots of that size}; slots of different sizes overlap."""

    machine: Machine
    sizes: Mapping[str, Size]
    slots: Mapping[Size, Sequence[Slot]]

    def cores(self, size: Size) -> int:
        """Number of physical cores of a slot of this size."""
        return self.machine.cores_of(self.slots[size][0].held)

    def describe(self) -> list[str]:
        """Describe the machine and the slots of each size, the largest first, as lines."""
        lines = [self.machine.describe()]
        for size in sorted(self.slots, reverse=True):
            here = self.slots[size]
            count = sum(s == size for s in self.sizes.values())
            per_run = f"{size}, {counted(self.cores(size), 'core')}" if size.gpus else str(size)
            lines.append(f"{counted(count, 'run')} of {per_run}, {len(here)} at the same time:")
            lines += slots.describe(here)
        return lines + slots.unused(self.machine, [s for found in self.slots.values() for s in found])


def lay_out(o: Placing, needs: Mapping[str, Needs], file: str = "") -> Layout:
    """Build the slots for runs with these needs, on this machine or on a machine described by a file. ConfigError."""
    here = machine.load(Path(file)) if file else machine.read()
    if o.cores:
        here = here.restricted(machine.numbers(o.cores))
    gpus = slots.chosen(here, o.gpu_list)
    sizes = {name: size_of(n, o, len(gpus), here.cores) for name, n in needs.items()}
    different = dict.fromkeys(sizes.values())
    return Layout(
        here,
        sizes,
        {s: slots.plan(here, gpus if s.gpus else [], s.gpus or 1, o.runs_per_gpu, s.cores or 1) for s in different},
    )
