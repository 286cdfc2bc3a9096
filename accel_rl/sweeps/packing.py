"""With --carry, a sweep packs each run as soon as it is finished, and unfinished runs at the end of the sweep."""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from accel_rl.settings.config_file import read_file
from accel_rl.sweeps import carried_code, packed_run
from accel_rl.sweeps.carried import Carried, Item
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

logger = logging.getLogger(__name__)
MB = 1_000_000
BYTES_PER_S = 10 * MB
"""A checkpoint is packed only if the remaining time suffices at 10 MB/s, a third of the speed of one core (EPYC,
2026)."""


def check_carried(carried: Carried, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ConfigError if a run in the folder of --carry and the sweep's run of the same name have different settings.
    `settings` has the settings of each run of the sweep, as in config.json."""
    for name, ours in json.loads(json.dumps(settings)).items():
        if item := carried.newest(name):
            packed_run.check_same(carried.get(item), ours, f"run {name} in --carry {carried.path}")


class Packing:
    """Moves runs between a sweep's folder and the folder of --carry."""

    def __init__(self, folder: SweepFolder, carried: Carried):
        self._folder, self._carried = folder, carried
        self._left_out: dict[str, str] = {}  # {run that is not packed: reason}

    def unpack(self) -> None:
        """Copy finished runs and later checkpoints from the folder of --carry to the sweep's folder."""
        for name in self._folder.names:
            item = self._carried.newest(name)
            if item and item.env_steps > self._folder.saved_at(name):
                packed_run.unpack(self._carried.get(item), self._folder.run(name))

    def step(self) -> bool:
        """Pack one finished run that is not packed yet, and return whether there was one."""
        for name in self._unpacked():
            self._pack(name, is_finished=True)
            return True
        return False

    def _unpacked(self) -> Iterator[str]:
        """Yield the names of finished runs that are not packed yet."""
        for name, record in self._folder.records.items():
            if record.status == "done" and name not in self._left_out:
                item = self._carried.newest(name)
                if item is None or not item.is_finished:
                    yield name

    def end(self, until: float) -> list[str]:
        """Until the time `until` (Unix time), pack what has not been packed: finished runs, compiled code, and then
        checkpoints of unfinished runs, in the order of the grid. Return lines of text about the folder of --carry."""
        while time.time() < until and self.step():
            pass
        self._left_out |= dict.fromkeys(self._unpacked(), "the time was over")
        self._pack_code()
        for name, record in self._folder.records.items():
            steps, item = self._folder.saved_at(name), self._carried.newest(name)
            if record.status == "done" or not steps or (item and item.env_steps >= steps):
                continue
            n_bytes = sum(file.stat().st_size for file in packed_run.of_checkpoint(self._folder.run(name)))
            if n_bytes > self._carried.total_bytes:
                self._left_out[name] = f"a checkpoint of {n_bytes / MB:,.1f} MB"
            elif time.time() + n_bytes / BYTES_PER_S > until:
                self._left_out[name] = f"no time was left for a checkpoint of {n_bytes / MB:,.1f} MB"
            else:
                self._pack(name, is_finished=False)
        return self._describe()

    def _pack(self, name: str, is_finished: bool) -> None:
        run = self._folder.run(name)
        try:
            data = packed_run.pack(run, is_finished)
            item = Item(name, self._folder.saved_at(name), is_finished)
            if not self._put(item, data):
                self._left_out[name] = f"no room for {len(data) / MB:,.1f} MB"
        except (ConfigError, OSError, LookupError) as e:
            self._left_out[name] = " ".join(str(e).split())

    def _put(self, item: Item, data: bytes) -> bool:
        """Write an item to the folder of --carry, and return whether there was room. To make room for a finished run,
        checkpoints of other runs are removed, beginning with the last run in the order of the grid."""
        if self._carried.put(item, data):
            return True
        names = self._folder.names
        others = [x for x in self._carried.items if not x.is_finished and x.name in names and x.name != item.name]
        others.sort(key=lambda x: names.index(x.name), reverse=True)
        if item.is_finished:
            for n in range(1, len(others) + 1):
                if self._carried.put(item, data, others[:n]):
                    self._left_out |= {x.name: "its room was needed" for x in others[:n]}
                    return True
        return False

    def _pack_code(self) -> None:
        games = [game for name in self._folder.names if (game := read_file(self._folder.run(name))["env"]["game"])]
        files = carried_code.files_of(games, self._carried) if games else []
        item = carried_code.item_of(files)
        if files and item not in self._carried.items:
            try:
                self._carried.put(item, carried_code.pack(files))
            except OSError as e:
                logger.info(f"compiled code is not packed: {e}")

    def _describe(self) -> list[str]:
        of_runs = [x for x in self._carried.items if x.name != carried_code.NAME]
        finished, sizes = sum(x.is_finished for x in of_runs), self._carried.file_sizes
        held = f"{counted(finished, 'finished run')} and {counted(len(of_runs) - finished, 'checkpoint')}"
        lines = [f"{self._carried.path}: {held} in {counted(len(sizes), 'file')}, {sum(sizes) / MB:.1f} MB"]
        return lines + [f"  {name} is not packed: {why}" for name, why in self._left_out.items()]
