"""A machine divided into slots of each size that the runs of a sweep get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launch import machine, slots
from launch.machine import Machine
from launch.needs import Needs, Size, counted
from launch.placing import Placing, size_of
from launch.slots import Slot


@dataclass(frozen=True)
class Layout:
    """`sizes`: of each run. `slots`: of each size, all that the machine has of it; slots of two sizes overlap."""

    machine: Machine
    sizes: Mapping[str, Size]
    slots: Mapping[Size, Sequence[Slot]]

    def cores(self, size: Size) -> int:
        """Physical cores of a slot."""
        return self.machine.cores_of(self.slots[size][0].held)

    def describe(self) -> list[str]:
        """The machine, and the slots of each size, largest first."""
        lines = [self.machine.describe()]
        for size in sorted(self.slots, reverse=True):
            here = self.slots[size]
            count = sum(s == size for s in self.sizes.values())
            per_run = f"{size}, {counted(self.cores(size), 'core')}" if size.gpus else str(size)
            lines.append(f"{counted(count, 'run')} of {per_run}, {len(here)} at the same time:")
            lines += slots.describe(here)
        return lines + slots.unused(self.machine, [s for found in self.slots.values() for s in found])


def lay_out(o: Placing, needs: Mapping[str, Needs], file: str = "") -> Layout:
    """Slots for runs with these needs, on this machine or on the one that a file describes. ConfigError."""
    here = machine.load(Path(file)) if file else machine.read()
    if o.cores:
        here = here.restricted(machine.numbers(o.cores))
    gpus = slots.chosen(here, o.gpu_list)
    sizes = {name: size_of(n, o, len(gpus), here.cores) for name, n in needs.items()}
    different = dict.fromkeys(sizes.values())
    return Layout(
        here, sizes, {s: slots.plan(here, gpus, s.gpus or 1, o.runs_per_gpu, s.cores or 1) for s in different}
    )
