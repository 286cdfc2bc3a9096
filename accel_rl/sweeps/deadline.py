"""A sweep with a deadline (--minutes) starts only runs that can finish in time.

    needed = start and end of a run + remaining env steps / rate + remaining evaluations x duration of one

Runs whose settings differ at most in game, seed, length, evaluation interval and folder are of the same kind. The rate
of a kind (env steps/s) is measured in the first seconds of a run of this kind, or is known from earlier runs in the
sweep's folder on the same kind of host. A run whose rate is unknown is started. A running run that cannot finish in
time is stopped if a waiting run can use its slot, or if another late run shares its GPU. Some time before the deadline
is reserved for the last checkpoints and for packing (--carry).
"""

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from accel_rl.machine import hardware
from accel_rl.machine.placement import Slot
from accel_rl.metrics.progress import human_time
from accel_rl.settings.config_file import read_file
from accel_rl.sweeps.feeder import PATIENCE_S, Feeder, Running
from accel_rl.sweeps.layout import Layout, starts
from accel_rl.sweeps.pace import Host, Pace, kind_of, read_pace
from accel_rl.sweeps.sweep_folder import DEADLINE, SweepFolder
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

RESERVE = 0.06
LEAST_RESERVE_S, MOST_RESERVE_S = 12.0, 45.0
"""The last 6 % of the time, between 12 and 45 s, are reserved for checkpoints and packing."""
WARM, MOST_WARM_S = 0.02, 15.0
"""A rate is measured after the first 2 % of the time, at most 15 s, because runs begin slowly."""
OVERHEAD_S = 10.0
"""Assumed seconds for starting and ending a run, as long as these have not been measured."""
TOLERANCE = 0.2
"""A run is stopped early only if it would be late by more than 20 % of the remaining time, because rates vary."""

Kind = tuple[str, Host | None]


class Deadline:
    """Decides which runs of a sweep start, and which are stopped early."""

    def __init__(self, folder: SweepFolder, layout: Layout, minutes: float, began: float, rates: Mapping[str, float]):
        """The deadline is `minutes` after `began` (Unix time). `rates` maps algorithms to env steps/s, for kinds of
        runs whose rate has not been measured."""
        seconds = 60 * minutes
        self._folder, self._layout, self._began = folder, layout, began
        self.due = began + seconds
        self.ends = self.due - min(max(RESERVE * seconds, LEAST_RESERVE_S), MOST_RESERVE_S, seconds / 2)
        self._warm_s = min(WARM * seconds, MOST_WARM_S)
        self._order = {name: i for i, name in enumerate(folder.names)}
        self._settings = {name: read_file(folder.run(name)) for name in self._order}
        self._alike = {name: kind_of(s) for name, s in self._settings.items()}
        self._cpu = hardware.cpu_name()
        self._lengths = {name: int(s["env_steps"]) for name, s in self._settings.items()}
        self._begun_at = {name: folder.saved_at(name) for name in self._order}
        self._rates = {name: rates[s["algorithm"]] for name, s in self._settings.items() if s["algorithm"] in rates}
        self._paces: dict[str, Pace] = {}
        self._launched: set[str] = set()  # runs that this sweep has started
        self._trained: set[str] = set()  # runs that were training when the paces were last read
        self._gave_up_at = self._read_at = -math.inf
        self._stopped: set[str] = set()
        self._why: dict[str, str] = {}
        self._queues: tuple[str, ...] = ()
        folder.load_records()
        self._read(self._order)

    @property
    def over(self) -> bool:
        return time.time() >= self.ends

    @property
    def left_s(self) -> float:
        return self.ends - time.time()

    @property
    def patience_s(self) -> float:
        """Seconds within which stopped runs must save their checkpoints, so that time is left for packing."""
        return min(PATIENCE_S, max(2.0, 0.6 * (self.due - time.time())))

    def step(self, feeder: Feeder) -> None:
        """Hold back waiting runs that cannot finish before the deadline, and stop at most one running run that cannot
        finish before the deadline."""
        queues = (*feeder.waiting, *feeder.running)
        if time.time() - self._read_at < min(self._warm_s / 4, 2.0) and queues == self._queues:
            return
        self._queues = queues
        # The runs that have just ended are read once more, for their last rows.
        self._read(self._trained | set(feeder.running))
        self._trained = set(feeder.running)
        self._launched |= self._trained
        feeder.held = {name for name in feeder.waiting if not self._fits(name)}
        most_s = TOLERANCE * max(0.0, self.left_s)
        late = {n: r for n, r in feeder.running.items() if n not in self._stopped and self._late_s(n) > most_s}
        waiting = [name for name in feeder.waiting if name not in feeder.held]
        if time.time() - self._gave_up_at < self._warm_s:  # After a run was stopped, other runs may become faster.
            return
        for name in sorted(late, key=self._order.__getitem__, reverse=True):
            if self._frees(late[name].slot, waiting, [r for r in late.values() if r.name != name]):
                self._why[name] = f"it needed {human_time(self._late_s(name))} more than the time that was left"
                self._stopped.add(name)
                feeder.end(name, "stopped")
                self._gave_up_at = time.time()
                return

    def _frees(self, slot: Slot, waiting: Sequence[str], late: Sequence[Running]) -> bool:
        """Return whether stopping the run in `slot` frees resources for a waiting run, or for another late run."""
        slots = [s for name in waiting for s in self._layout.slots[self._layout.sizes[name]]]
        return any(not set(slot.held).isdisjoint(s.held) for s in slots) or any(
            not set(slot.gpus).isdisjoint(other.slot.gpus) for other in late
        )

    def _read(self, names: Iterable[str]) -> None:
        self._read_at = time.time()
        for name in names:
            # For a finished run, the first rows are used too, because the run may have no other rows.
            warm_s = 0.0 if self._folder.finished(name, self._lengths[name]) else self._warm_s
            if pace := read_pace(self._folder.run(name), warm_s):
                self._paces[name] = pace

    def _kind(self, name: str) -> Kind:
        slot = self._layout.slots[self._layout.sizes[name]][0]
        return self._alike[name], Host(self._cpu, len(slot.cores), len(slot.gpus))

    def _measured(self, name: str) -> list[Pace]:
        """Return the paces of the running runs of the same kind, or of all runs of this kind if none is running."""
        kind = self._kind(name)
        same = {
            n: p
            for n, p in self._paces.items()
            if kind == (self._kind(n) if n in self._launched else (self._alike[n], p.host))
        }
        now = [p for n, p in same.items() if self._folder.records[n].status == "running" and p.rate == p.rate]
        return now or list(same.values())

    def rate(self, name: str) -> float:
        """Return the expected env steps/s of a run, or NaN if they are unknown."""
        return _median([p.rate for p in self._measured(name)], self._rates.get(name, math.nan))

    def needed_s(self, name: str) -> float:
        """Return how many seconds a waiting run needs to its end, or NaN if its rate is unknown."""
        return self._overhead_s() + self._remaining_s(name, self._folder.saved_at(name), self.rate(name))

    def _remaining_s(self, name: str, env_steps: int, rate: float) -> float:
        length, interval = self._lengths[name], int(self._settings[name]["evaluation"]["interval"])
        evaluations = -(-length // interval) - env_steps // interval if interval else 0  # A run's end is evaluated.
        evaluation_s = _median([p.evaluation_s for p in self._measured(name)], 0.0)
        return (length - env_steps) / rate + evaluations * evaluation_s

    def _overhead_s(self) -> float:
        records = self._folder.records
        ended = [(self._paces[n], records[n]) for n in self._launched & set(self._paces) if records[n].status == "done"]
        return _median([r.ended - r.started - p.wall_s for p, r in ended if r.ended and r.started], OVERHEAD_S)

    def _fits(self, name: str) -> bool:
        needed_s = self.needed_s(name)
        is_known = needed_s == needed_s
        if not is_known:
            needed_s = self._overhead_s() + self._warm_s
        if fits := needed_s <= self.left_s:
            self._why.pop(name, None)
        else:
            needs = f"it needs {human_time(needed_s)}" if is_known else "its rate is unknown"
            self._why[name] = f"{needs}, and {human_time(max(0.0, self.left_s))} were left"
        return fits

    def _late_s(self, name: str) -> float:
        """Return by how many seconds a running run would miss the end of training, or -inf if its rate is unknown."""
        pace, record = self._paces.get(name), self._folder.records[name]
        if pace is None or pace.rate != pace.rate or pace.read_at < (record.started or 0.0):
            return -math.inf
        remaining_s = self._remaining_s(name, pace.env_steps, pace.rate) + self._overhead_s() / 2
        return pace.read_at + remaining_s - self.ends

    # -- text ------------------------------------------------------------

    def plan(self, waiting: Sequence[str]) -> list[str]:
        """Return a line of text for each waiting run with its expected start and end."""
        left_s, clock, pending = self.left_s, 0.0, list(waiting)
        running: list[tuple[float, Slot]] = []
        lines = {}
        while True:
            needed = {name: self.needed_s(name) for name in pending}
            ready = [name for name in pending if not clock + needed[name] > left_s]
            for name, slot in starts(ready, self._layout.sizes, self._layout.slots, [s for _, s in running]):
                known = needed[name] == needed[name]
                end = clock + needed[name] if known else left_s
                text = f"ends at {human_time(end)}" if known else "its rate is measured"
                lines[name] = f"  {name}: starts at {human_time(clock)}, {text}"
                running.append((end, slot))
                pending.remove(name)
            if not running:
                break
            running.sort(key=lambda item: item[0])
            clock = running.pop(0)[0]
        for name in pending:
            needed_s = self.needed_s(name)
            why = ", and no slot is free in time" if needed_s <= left_s else ""
            lines[name] = f"  {name}: does not start: it needs {human_time(needed_s)}{why}"
        head = (
            f"{human_time(left_s)} to train, {human_time(self.due - self.ends)} for the last checkpoints and packing:"
        )
        return [head, *(lines[name] for name in waiting)]

    def outcome(self) -> list[str]:
        ended = "the time was over" if self.over else "the sweep was stopped"
        lines, finished = [], 0
        for name, record in self._folder.records.items():
            length, steps = self._lengths[name], self._folder.saved_at(name)
            why = self._why.get(name, ended if record.attempts or not self.over else "no slot was free")
            if record.status == "done":
                finished += 1
                lines.append(f"  {name}: finished, {length:,} env steps")
            elif record.status == "failed":
                lines.append(f"  {name}: failed at {steps:,} of {length:,} env steps")
            elif steps:
                lines.append(f"  {name}: stopped at {steps:,} of {length:,} env steps: {why}")
            else:
                lines.append(f"  {name}: not begun: {why}" if not record.attempts else f"  {name}: stopped: {why}")
        seconds = time.time() - self._began
        steps = sum(self._folder.saved_at(name) - n for name, n in self._begun_at.items())
        total = f"{finished} of {counted(len(lines), 'run')} finished in {human_time(seconds)}"
        return [*lines, f"{total}; {steps:,} env steps, {steps / seconds:,.0f} env steps/s in all"]

    def announce(self) -> None:
        """Write the deadline to a file, so that `accel-rl status` can display it."""
        self._folder.write(DEADLINE, {"due": self.due})


def _median(values: Iterable[float], otherwise: float) -> float:
    known = [x for x in values if x == x]
    return statistics.median(known) if known else otherwise


def check_minutes(minutes: float | None) -> None:
    """Raise ConfigError if --minutes is no positive number."""
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes {minutes:g}: must be above 0, such as 12")
