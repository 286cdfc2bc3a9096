"""Measures the time of a run, summed over its successive processes. The times are stored in a checkpoint's manifest, so
that the checkpoint's other files depend only on settings and seed."""

import time
from typing import Any

from accel_rl.machine.gpu_energy import GpuEnergy, gpu_id
from accel_rl.machine.usage import PackageEnergy, cpu_seconds
from accel_rl.run.pauses import Pauses

UNKNOWN = float("nan")


class RunTime:
    """Wall time without pauses, CPU time and energy of a run.

    A process that continues a run from a checkpoint adds to the checkpoint's times. The time that an earlier process
    spent after the checkpoint is not counted, and neither are its env steps.
    """

    def __init__(self, counts_usage: bool, device: str = "cpu"):
        """`counts_usage` is false if the processes of the run are not all children of this process, so that their CPU
        time and energy are unknown. `device` is the device that trains."""
        self._counts_usage = counts_usage
        self._device = device
        self._before = {"wall_s": 0.0, "paused_s": 0.0, "cpu_s": 0.0, "joules": 0.0, "gpu_joules": 0.0}
        self._evaluated_s = self._trained_s_at_row = 0.0
        self._evaluating_since: float | None = None
        self._pauses: Pauses | None = None  # None before `begin`

    def begin(self) -> None:
        """Start the clocks of this process, when sampling begins."""
        self.close()
        self._began, self._cpu_began, self._energy = time.monotonic(), cpu_seconds(), PackageEnergy()
        self._gpu_energy = GpuEnergy([] if self._device == "cpu" else [gpu_id(self._device)])
        self._pauses = Pauses()

    def close(self) -> None:
        if self._pauses is not None:
            self._pauses.close()

    @property
    def wall_s(self) -> float:
        """Wall time of the run in seconds, without pauses."""
        return self.totals()["wall_s"]

    def totals(self) -> dict[str, float]:
        """The run's wall_s, paused_s, cpu_s, joules (of the CPU packages) and gpu_joules so far. Unknown values are
        NaN."""
        if self._pauses is None:
            return dict(self._before)
        now, paused_s = time.monotonic(), self._pauses.seconds
        cpu_s = cpu_seconds() - self._cpu_began if self._counts_usage else UNKNOWN
        joules, gpu_joules = (
            energy.joules() if self._counts_usage else None for energy in (self._energy, self._gpu_energy)
        )
        used = {
            "wall_s": now - self._began - paused_s,
            "paused_s": paused_s,
            "cpu_s": cpu_s,
            "joules": UNKNOWN if joules is None else joules,
            "gpu_joules": UNKNOWN if gpu_joules is None else gpu_joules,
        }
        return {name: self._before[name] + x for name, x in used.items()}

    def evaluate(self) -> None:
        """Exclude the time of the evaluation that begins now from the rate of env steps."""
        self._evaluating_since = self.wall_s

    def train(self) -> None:
        if self._evaluating_since is not None:
            self._evaluated_s += self.wall_s - self._evaluating_since
            self._evaluating_since = None

    def row(self, env_steps: int) -> dict[str, float]:
        """The columns of time of a row of metrics. `env_steps` is the number of env steps since the last row."""
        totals = self.totals()
        trained_s = self._trained_s(totals["wall_s"])
        rate = env_steps / max(trained_s - self._trained_s_at_row, 1e-9)
        self._trained_s_at_row = trained_s
        if not totals["gpu_joules"]:
            del totals["gpu_joules"]  # A run without a GPU has no column gpu_joules.
        return {name: round(x, 3) for name, x in totals.items() if x == x} | {"steps_per_s": round(rate, 1)}

    def _trained_s(self, wall_s: float) -> float:
        evaluated_s = self._evaluated_s
        if self._evaluating_since is not None:
            evaluated_s += wall_s - self._evaluating_since
        return wall_s - evaluated_s

    def state_dict(self) -> dict[str, Any]:
        totals = self.totals()
        # JSON has no NaN, so unknown values are stored as None.
        return {name: x if x == x else None for name, x in totals.items()} | {
            "evaluated_s": self._evaluated_s,
            "trained_s_at_row": self._trained_s_at_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Checkpoints before 2026-11-28 have no gpu_joules.
        before = {name: state.get(name) for name in self._before}
        self._before = {name: UNKNOWN if x is None else x for name, x in before.items()}
        self._evaluated_s, self._trained_s_at_row = state["evaluated_s"], state["trained_s_at_row"]
