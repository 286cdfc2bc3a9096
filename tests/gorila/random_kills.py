"""A Gorila run on a local Ray cluster of three nodes, while processes of the run and nodes are killed."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from accel_rl.gorila.driver import Driver
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.presets import on_gorila
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from tests.gorila.local_cluster import LocalCluster, local_cluster

TITLES = {
    "member": "ray::Member",
    "shard": "ray::ShardActor",
    "evaluator": "ray::EvaluatorActor",
    "board": "ray::Board",
    "replay": "ray::GlobalReplay",
}
SETTLE_S = 1.0


def catch(env_steps: int, seed: int = 1, **gorila: object) -> TrainConfig:
    """Settings of a Gorila run of DQN on Catch, with two bundles and two parameter shards."""
    config = on_gorila(default_config("dqn"), is_atari=False)
    algo = replace(
        config.algo, network="a3c", optimizer="adam", optimizer_eps=1e-3, learning_rate=5e-4, epsilon_final=0.02,
        epsilon_steps=1250, target_interval=60,
        replay=replace(config.algo.replay, size=20_000, start=1_000),
    )  # fmt: skip
    return replace(
        config,
        env=replace(config.env, id="tests.catch:make"),
        algo=algo,
        sampler=replace(config.sampler, envs=8, engine="in-process"),
        evaluation=replace(config.evaluation, interval=4_000, episodes=50),
        checkpoint=replace(config.checkpoint, interval=4_000),
        torch_threads=1,
        env_steps=env_steps,
        seed=seed,
        gorila=replace(config.gorila, **{"bundles": 2, "shards": 2, "snapshot_updates": 200, **gorila}),
    )


class Killer:
    """A thread that kills one process or node for each entry of `kinds`, in this order, with pauses of `pause_s`."""

    def __init__(self, cluster: LocalCluster, kinds: Sequence[str], pause_s: float):
        self._cluster, self._kinds, self._pause_s = cluster, kinds, pause_s
        self.killed: list[str] = []
        self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.over and len(self.killed) < len(self._kinds):
            time.sleep(self._pause_s)
            kind = self._kinds[len(self.killed)]
            with suppress(psutil.Error):
                if kind == "node":
                    self._cluster.kill_node(1)
                    self.killed.append(kind)
                    time.sleep(SETTLE_S)
                    self._cluster.add_node()
                elif found := titled(TITLES[kind]):
                    found[0].kill()
                    self.killed.append(kind)
        while not self.over:  # When this thread ends, the Ray nodes that it started end too.
            time.sleep(0.1)


def titled(title: str, pid: int | None = None) -> list[psutil.Process]:
    """Return the child processes of `pid` (by default of this process) whose process title, set by Ray, begins with
    `title`."""
    found = []
    for p in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if p.cmdline() and p.cmdline()[0].startswith(title):
                found.append(p)
    return found


def run(folder: Path, config: TrainConfig, kinds: Sequence[str], pause_s: float) -> tuple[dict[str, object], list[str]]:
    """Train while a Killer kills processes and nodes.

    Returns the run's result, and the list of the kinds of processes and nodes that were killed.
    """
    with local_cluster(nodes=3, cpus=2) as cluster:
        resolved = replace(resolve(config), run_dir=str(folder))
        run_folder = RunFolder.create(folder, resolved)
        driver = Driver(cluster.ray, resolved, run_folder)
        killer = Killer(cluster, kinds, pause_s)
        try:
            result = driver.train()
        finally:
            killer.over = True
        return result.to_dict(), killer.killed
