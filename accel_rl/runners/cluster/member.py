"""A member of a cluster run: a process that samples, learns, or both."""

import warnings
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.runners.cluster.board import Work
from accel_rl.runners.cluster.board_line import BoardLine
from accel_rl.runners.cluster.bundle_ranks import BundleRanks
from accel_rl.runners.cluster.member_checkpoints import bring_back
from accel_rl.runners.cluster.member_context import MemberContext
from accel_rl.runners.cluster.ray_shards import transport_to
from accel_rl.runners.cluster.remote_replay import RemoteReplay
from accel_rl.runners.cluster.session import load_ray
from accel_rl.runners.cluster.setup import Place, Role, Setup, member_config
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Trainer
from accel_rl.system.errors import ConfigError, RunError


class Member:
    """What runs in the process of a member: a `Trainer` with another rank context, or `BundleRanks`."""

    def __init__(self, setup: Setup, index: int, life: int, role: Role):
        """life: number of this process among those of the member, from 0."""
        self._setup, self._index, self._life, self._role = setup, index, life, role

    def place(self) -> Place:
        """Return where this process runs."""
        return Place.here(load_ray())

    def run(self, slot: int, slots: int) -> int:
        """Run to the end; returns the env steps of the run. slot, slots: see `member_config`."""
        warnings.simplefilter("ignore")  # the driver shows them
        ray, setup = load_ray(), self._setup
        config = member_config(setup.enter(), slot, slots)
        folder = self._folder()
        line = BoardLine(ray, setup.board, self._index, self._life)
        transport = transport_to(ray, setup.shards)
        if config.distributed.several:
            return BundleRanks(config, folder, transport, line, self._index).run()
        state = self._state(folder, line.ask(Work(), []).env_steps)
        replay = self._global_replay if config.gorila.replay == "global" else None
        context = MemberContext(self._index, config.gorila, transport, line, state, self._role, replay)
        return Trainer(config, RankPlan.resolve(config), folder, state, context).run().env_steps

    def _global_replay(self, algo: Algorithm) -> RemoteReplay:
        setup, config = self._setup, algo.config
        return RemoteReplay(
            load_ray(), setup.replay, self._index, self._life, config.replay.start, algo.device,
            setup.config["gorila"]["timeout_s"],
        )  # fmt: skip

    def _folder(self) -> RunFolder:
        """Return this member's folder. It has no config.json: it is a part of a run, and not one by itself."""
        path = self._setup.member_folder(self._index)
        path.mkdir(parents=True, exist_ok=True)
        return RunFolder(path)

    def _state(self, folder: RunFolder, env_steps: int) -> dict[str, Any] | None:
        """Load the newest checkpoint of this member. A damaged one is left out: its replay fills again.

        env_steps: of the run. The checkpoint is of this moment then, also where the run continues from an earlier one.
        """
        checkpoints = Checkpoints(folder.path / "checkpoints")
        bring_back(checkpoints, env_steps)
        try:
            latest = checkpoints.load_latest()
        except (ConfigError, RunError) as e:
            folder.event(f"starts without its checkpoint: {e}")
            return None
        if latest is None:
            return None
        state = latest[1]
        return {**state, "env_steps": env_steps, "logged_at": min(state["logged_at"], env_steps)}
