"""A bundle of several ranks: asynchronous learners on central parameters of their machine, with one uplink."""

from dataclasses import replace

import torch

from accel_rl.algos.algorithm import Algorithm
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.config.train import TrainConfig
from accel_rl.distributed.central import Central
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.parameter_server.transport import Transport
from accel_rl.distributed.parameter_server.uplink import Uplink
from accel_rl.envs.make import make_spec
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.cluster.board import Work
from accel_rl.runners.cluster.board_line import BoardLine
from accel_rl.runners.cluster.member_checkpoints import bring_back
from accel_rl.runners.learner import Learner
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.ranks.async_launcher import AsyncLauncher
from accel_rl.runners.ranks.context import SingleRank
from accel_rl.runners.ranks.sync_launcher import folder_of
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.seeds import Stream, derived_seed


class _Central(SingleRank):
    """The rank context of the process that owns a machine's central parameters and does not learn itself."""

    sync: LockedChunks

    def __init__(self, chunks: int):
        self._chunks = chunks

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self.sync = LockedChunks(flat, algo.build_optimizer, None, self._chunks)
        return self.sync


class BundleRanks:
    """Starts the ranks of a bundle, and stands between them and the cluster: it pushes their updates to the shards
    (`Uplink`), reports their work to the board, and tells them of the other machines'."""

    def __init__(self, config: TrainConfig, run: RunFolder, transport: Transport, line: BoardLine, index: int):
        """config, run: of this bundle. transport: to the shards. index: of this bundle; its seeds follow from it."""
        torch.set_num_threads(1)
        config = replace(config, seed=derived_seed(config.seed, Stream.RANK, index))
        self._config, self._line, self._start = config, line, line.ask(Work(), []).env_steps
        for rank in range(config.distributed.size):
            bring_back(Checkpoints(folder_of(run, rank).path / "checkpoints"), self._start)
        self._launcher = AsyncLauncher(config, RunPlan.resolve(config), run, None)
        context = _Central(config.distributed.chunks)
        Learner(config, make_spec(config.env, training=True), "cpu", config.seed, context)
        sync = context.sync
        central = Central(sync.parts, sync.states(), self._launcher.central, create=True)
        self._uplink = Uplink(central, sync.optimizers[0], config.gorila, f"member-{index}")
        self._uplink.connect(transport)
        self._launcher.counters.begin(self._start)
        self._look()

    def run(self) -> int:
        """Run all ranks to their end; returns the env steps of the run. RunError, ConfigError: of a rank."""
        with self._launcher as launcher:
            env_steps = launcher.train(self._look).env_steps
            self._uplink.flush()
            if not self._line.lost:
                self._line.ask(self._work(), launcher.counters.recent())
            return env_steps

    def _look(self) -> None:
        line, counters = self._line, self._launcher.counters
        self._uplink.look()
        line.tell(self._work(), counters.recent())
        limit, updates = self._config.gorila.updates, self._uplink.updates
        stop = line.answer.stop or line.lost or (limit is not None and updates >= limit)
        counters.note_others(line.answer.env_steps - line.answered.env_steps - self._start, updates, stop)

    def _work(self) -> Work:
        new, uplink = self._launcher.counters.new(), self._uplink
        return Work(
            new.env_steps, new.episodes, new.updates, lost=uplink.counts.lost, moved=uplink.bytes_moved,
            ranks_replaced=self._launcher.replaced,
        )  # fmt: skip
